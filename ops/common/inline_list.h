#pragma once
// A list of a few elements that needs no heap: attributes of ops are hashed and compared whenever a step is recorded.

#include <array>
#include <cstddef>
#include <initializer_list>

#include "core/base/error.h"

namespace braid {

template <class T, std::size_t kCapacity>
class InlineList {
 public:
  InlineList() = default;
  InlineList(std::initializer_list<T> elements) {
    for (const T& element : elements) push_back(element);
  }
  /// Throws Error if the list is full.
  void push_back(const T& element) {
    BRAID_CHECK(size_ < kCapacity, Error, "[list] holds at most ", kCapacity, " elements");
    elements_[size_++] = element;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](std::size_t i) const { return elements_[i]; }
  T& operator[](std::size_t i) { return elements_[i]; }
  const T* begin() const { return elements_.data(); }
  const T* end() const { return elements_.data() + size_; }
  T* begin() { return elements_.data(); }
  T* end() { return elements_.data() + size_; }

 private:
  std::array<T, kCapacity> elements_{};
  std::size_t size_ = 0;
};

}  // namespace braid
