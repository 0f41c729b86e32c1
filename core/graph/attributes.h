#pragma once
// The attributes of an op are a plain struct that names its members, in their order:
//
//   struct DropoutAttributes {
//     double p;
//     std::uint64_t seed;
//     static constexpr std::string_view kNames[] = {"p", "seed"};
//   };
//
// Hash, equality and text come from that. A member without a name does not compile. Members are numbers, enums,
// strings, shapes and other lists, and structs like it.

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <ostream>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "core/base/hash.h"

namespace braid {

/// The attributes of an op that has none.
struct NoAttributes {
  static constexpr std::array<std::string_view, 0> kNames{};
};

/// How attributes are printed: {padding: [1,1], activation: relu}, or the same as JSON.
enum class Notation { plain, json };

template <class T>
concept NamedAttributes = requires {
  T::kNames;
};

namespace attribute {

void print(std::ostream& out, double number, Notation notation);
void print(std::ostream& out, std::string_view text, Notation notation);

/// References to all members.
template <NamedAttributes T>
constexpr auto members(const T& value) {
  constexpr std::size_t kCount = std::size(T::kNames);
  static_assert(kCount <= 8, "put some of the attributes into a struct of their own");
  // An error in a line below says that kNames has more or fewer names than the struct has members.
  if constexpr (kCount == 0) {
    return std::tie();
  } else if constexpr (kCount == 1) {
    const auto& [a] = value;
    return std::tie(a);
  } else if constexpr (kCount == 2) {
    const auto& [a, b] = value;
    return std::tie(a, b);
  } else if constexpr (kCount == 3) {
    const auto& [a, b, c] = value;
    return std::tie(a, b, c);
  } else if constexpr (kCount == 4) {
    const auto& [a, b, c, d] = value;
    return std::tie(a, b, c, d);
  } else if constexpr (kCount == 5) {
    const auto& [a, b, c, d, e] = value;
    return std::tie(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    const auto& [a, b, c, d, e, f] = value;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    const auto& [a, b, c, d, e, f, g] = value;
    return std::tie(a, b, c, d, e, f, g);
  } else {
    const auto& [a, b, c, d, e, f, g, h] = value;
    return std::tie(a, b, c, d, e, f, g, h);
  }
}

template <class T>
concept Text = std::convertible_to<const T&, std::string_view>;
template <class T>
concept List = !Text<T> && requires(const T& value) {
  value.begin() != value.end();
};
template <class T>
concept HasExtents = requires(const T& value) {
  value.extents();
};  // Shape, Extent2d

template <class T>
constexpr void add_to(Hash& hash, const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    hash.add(static_cast<double>(value));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    hash.add(static_cast<std::uint64_t>(value));
  } else if constexpr (Text<T>) {
    hash.add(std::string_view(value));
  } else if constexpr (HasExtents<T>) {
    add_to(hash, value.extents());
  } else if constexpr (List<T>) {
    // The length comes first, so that no two lists add the same words.
    hash.add(static_cast<std::uint64_t>(value.size()));
    for (const auto& element : value) add_to(hash, element);
  } else {
    std::apply([&](const auto&... member) { (add_to(hash, member), ...); }, members(value));
  }
}

/// Equal bit by bit: 0 is not −0, which gives other results, and a NaN equals itself.
template <class T>
constexpr bool equal(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::bit_cast<std::uint64_t>(static_cast<double>(a)) == std::bit_cast<std::uint64_t>(static_cast<double>(b));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || Text<T> || HasExtents<T>) {
    return a == b;
  } else if constexpr (List<T>) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return equal(x, y); });
  } else {
    return std::apply(
        [&](const auto&... x) {
          return std::apply([&](const auto&... y) { return (equal(x, y) && ...); }, members(b));
        },
        members(a));
  }
}

template <class T>
void print(std::ostream& out, const T& value, Notation notation) {
  if constexpr (std::is_same_v<T, bool>) {
    out << (value ? "true" : "false");
  } else if constexpr (std::is_floating_point_v<T>) {
    print(out, static_cast<double>(value), notation);
  } else if constexpr (std::is_arithmetic_v<T>) {
    out << +value;  // a number, although the type may be a character
  } else if constexpr (std::is_enum_v<T>) {
    if constexpr (requires { name_of(value); }) {
      print(out, std::string_view(name_of(value)), notation);
    } else {
      out << +static_cast<std::underlying_type_t<T>>(value);
    }
  } else if constexpr (Text<T>) {
    print(out, std::string_view(value), notation);
  } else if constexpr (HasExtents<T>) {
    print(out, value.extents(), notation);
  } else if constexpr (List<T>) {
    const char* separator = "";
    out << '[';
    for (const auto& element : value) {
      out << std::exchange(separator, ",");
      print(out, element, notation);
    }
    out << ']';
  } else {
    const char* separator = "";
    std::size_t next = 0;
    const auto add = [&](const auto& member) {
      out << std::exchange(separator, notation == Notation::json ? "," : ", ");
      print(out, T::kNames[next++], notation);
      out << (notation == Notation::json ? ":" : ": ");
      print(out, member, notation);
    };
    out << '{';
    std::apply([&](const auto&... member) { (add(member), ...); }, members(value));
    out << '}';
  }
}

}  // namespace attribute
}  // namespace braid
