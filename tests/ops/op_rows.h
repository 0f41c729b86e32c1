#pragma once
// How rows of the op table are made.

#include <functional>
#include <map>

#include "ops/common/extent.h"
#include "tests/ops/op_table.h"

namespace braid::testing {

using Rows = std::vector<OpRow>;

/// Calls f after each change to one number, name or length within a value, which it takes back.
template <class T, class F>
void for_each_change(T& value, const F& f) {
  const T before = value;
  const auto change = [&](T changed) {
    value = std::move(changed);
    f();
    value = before;
  };
  if constexpr (std::is_same_v<T, bool>) {
    change(!value);
  } else if constexpr (std::is_floating_point_v<T>) {
    change(value + 0.25);
  } else if constexpr (std::is_arithmetic_v<T>) {
    change(value + 1);
  } else if constexpr (std::is_enum_v<T>) {
    change(static_cast<T>(value == T{} ? 1 : 0));
  } else if constexpr (std::is_same_v<T, Extent2d>) {
    change({value.h + 1, value.w});
    change({value.h, value.w + 1});
  } else if constexpr (std::is_same_v<T, Shape>) {
    std::vector<std::int64_t> extents(value.extents().begin(), value.extents().end());
    for (std::int64_t& extent : extents) {
      ++extent;
      change(Shape(extents));
      --extent;
    }
    extents.push_back(1);
    change(Shape(extents));
  } else if constexpr (attribute::List<T>) {
    for (auto& element : value) for_each_change(element, f);
    value.push_back({});
    change(value);
  } else {
    std::apply(
        [&](const auto&... member) {
          (for_each_change(const_cast<std::remove_cvref_t<decltype(member)>&>(member), f), ...);
        },
        attribute::members(value));
  }
}

template <class T, class Attributes>
OpPtr make_from(const Attributes& attributes) {
  if constexpr (std::is_constructible_v<T, Attributes>) {
    return std::make_shared<T>(attributes);
  } else {
    return std::apply([](const auto&... members) { return std::make_shared<T>(members...); },
                      attribute::members(attributes));
  }
}

struct OpMaker {
  std::function<OpPtr()> copy;
  std::function<std::vector<OpPtr>()> neighbours;
};

/// The maker of every op that a row holds.
std::map<const Op*, OpMaker>& makers();

template <class T, class... Arguments>
OpPtr make(Arguments&&... arguments) {
  const auto op = std::make_shared<T>(std::forward<Arguments>(arguments)...);
  const auto neighbours = [attributes = op->attributes()] {
    std::vector<OpPtr> list;
    auto changed = attributes;
    for_each_change(changed, [&] {
      try {
        list.push_back(make_from<T>(changed));
      } catch (const Error&) {
      }
    });
    return list;
  };
  makers()[op.get()] = {[attributes = op->attributes()] { return make_from<T>(attributes); }, neighbours};
  return op;
}

// Rows of the ops behind the functions on tensors (tests/ops/function_rows.cpp).
void add_expression_rows(Rows& rows);
void add_reduce_rows(Rows& rows);
void add_softmax_rows(Rows& rows);
void add_strided_copy_rows(Rows& rows);
void add_index_rows(Rows& rows);
void add_matmul_rows(Rows& rows);
void add_interpolate_rows(Rows& rows);
void add_group_norm_rows(Rows& rows);

}  // namespace braid::testing
