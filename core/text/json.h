#pragma once
// Writes and reads JSON. nlohmann-json does the work, and takes seconds to compile, so only json.cpp includes it. Not
// for public headers, where `class Json;` must do.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/error.h"

namespace braid {

/// A text is not JSON, or JSON is not what was expected.
struct JsonError : DataError {
  using DataError::DataError;
};

/// A template, so that it is complete as soon as the value's type is.
template <class Value>
struct NamedValue {
  std::string key;
  Value value;
  bool operator==(const NamedValue&) const = default;
};

/// A value of JSON. Throws JsonError where it is not of the type that a method needs.
class Json {
 public:
  struct Field;  // a member of an object to write: {"key", value}
  using Member = NamedValue<Json>;

  Json(std::nullptr_t = nullptr) {}
  template <class T>
  requires std::is_arithmetic_v<T> Json(T number) {
    if constexpr (std::is_same_v<T, bool>) {
      value_ = number;
    } else if constexpr (std::is_floating_point_v<T>) {
      value_ = static_cast<double>(number);
    } else if (std::in_range<std::int64_t>(number)) {
      value_ = static_cast<std::int64_t>(number);
    } else {
      value_ = static_cast<std::uint64_t>(number);
    }
  }
  Json(std::string text);
  Json(std::string_view text);
  Json(const char* text);
  /// An object: `Json{{"name", "relu"}, {"width", 4}}`.
  Json(std::initializer_list<Field> fields);
  template <class T, std::size_t N>
  Json(std::span<T, N> list) : Json(array()) {
    for (const auto& element : list) push_back(element);
  }
  template <class T>
  Json(const std::vector<T>& list) : Json(std::span(list)) {}
  template <class A, class B>
  Json(const std::pair<A, B>& pair) : Json(array({pair.first, pair.second})) {}
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json array(std::initializer_list<Json> elements = {});
  static Json object();

  bool is_null() const { return value_.index() == 0; }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int64() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_number() const;
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<std::vector<Json>>(value_); }
  bool is_object() const { return std::holds_alternative<std::vector<Member>>(value_); }

  bool as_bool() const;
  std::int64_t as_int64() const;
  double as_double() const;  ///< takes any number
  const std::string& text() const;
  const std::vector<Json>& elements() const;
  std::vector<Json>& elements();
  /// The members in the order in which they were added or read. If a text repeats a key, its last value counts.
  const std::vector<Member>& members() const;
  std::vector<Member>& members();

  /// Elements or members: 0 for null, 1 for any other value.
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  const Json& operator[](std::size_t index) const;
  Json& operator[](std::size_t index);
  /// nullptr if this is no object with the key.
  const Json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const Json& operator[](std::string_view key) const;
  /// Adds a member if there is none with the key. Null becomes an object.
  Json& operator[](std::string_view key);
  void erase(std::string_view key);
  /// Null becomes an array. Returns the element in it.
  Json& push_back(Json element);

  /// One line, or several lines indented by this many spaces. What is not UTF-8 becomes U+FFFD, and what is not finite
  /// null.
  std::string dump(int indentation = -1) const;
  /// The same with the keys of each object in alphabetical order.
  std::string dump_sorted(int indentation = -1) const;
  /// Shortens it to at most 61 characters, for a message.
  std::string excerpt() const;

  /// The order of keys does not count; 1 equals 1.0.
  friend bool operator==(const Json& a, const Json& b);

 private:
  struct Writer;
  template <class T>
  const T& get(std::string_view expected) const;

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, std::vector<Json>,
               std::vector<Member>>
      value_;  // uint64_t only for what int64_t cannot hold
};

struct Json::Field {
  std::string_view key;
  mutable Json value;  // moved from the list
};

/// Throws JsonError "line 3, column 7: …" if the text is not JSON, or nested very deeply.
Json parse_json(std::string_view text);

/// A part of a text that is not trusted, and where it is, as "streams[1][7].wait". Every method throws JsonError
/// "'where' what was expected, got what". The whole must outlive its parts.
struct JsonPart {
  const Json& json;
  std::string path = {};

  JsonPart operator[](const char* key) const;
  std::vector<JsonPart> list() const;
  void check_size(std::size_t size) const;
  std::int64_t integer(std::int64_t low, std::int64_t high) const;
  std::int32_t index(std::int64_t size) const { return static_cast<std::int32_t>(integer(0, size - 1)); }
  /// The integer of a key that may be left out.
  std::int64_t integer_or(const char* key, std::int64_t otherwise, std::int64_t low, std::int64_t high) const {
    return json.contains(key) ? (*this)[key].integer(low, high) : otherwise;
  }
  /// A finite number of at least `least`.
  double number(double least) const;
  std::string text() const;
  bool flag() const;
  [[noreturn]] void fail(std::string_view expected) const;
};

}  // namespace braid
