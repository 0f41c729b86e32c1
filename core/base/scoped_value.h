#pragma once

#include <utility>

namespace braid {

/// Gives a variable another value while it lives.
template <class T>
class ScopedValue {
 public:
  [[nodiscard]] ScopedValue(T& variable, T value) : variable_(variable), outer_(std::exchange(variable, value)) {}
  ~ScopedValue() { variable_ = outer_; }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  T& variable_;
  const T outer_;
};

}  // namespace braid
