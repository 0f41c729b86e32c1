#pragma once
// A dense tensor in host memory: what data loaders produce and what reading a value returns.

#include <cstring>
#include <iosfwd>
#include <memory>
#include <span>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/shape.h"

namespace braid {

/// Copies share the elements, as in NumPy. Thread-safe while no thread writes.
class Array {
 public:
  Array() = default;
  /// Elements are zero. Throws OutOfMemory if there is no room for them.
  Array(DType dtype, const Shape& shape);

  /// Throws ShapeError unless the shape holds as many elements as given.
  template <class T>
  static Array from(const std::vector<T>& elements, const Shape& shape) {
    BRAID_CHECK(static_cast<std::int64_t>(elements.size()) == shape.size(), ShapeError, "[array] expected ",
                shape.size(), " elements for shape ", shape, ", got ", elements.size());
    Array array(dtype_of<T>(), shape);
    if (!elements.empty()) std::memcpy(array.data(), elements.data(), array.bytes());
    return array;
  }
  template <class T>
  static Array scalar(T value) {
    return from(std::vector<T>{value}, Shape{});
  }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return bytes_ == nullptr ? 0 : shape_.size(); }
  std::size_t bytes() const { return size_of(dtype_) * static_cast<std::size_t>(size()); }
  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }

  /// The elements as T. Throws ShapeError if the dtype is another.
  template <class T>
  std::span<T> as() {
    check_dtype(dtype_of<T>());
    return {reinterpret_cast<T*>(bytes_.get()), static_cast<std::size_t>(size())};
  }
  template <class T>
  std::span<const T> as() const {
    check_dtype(dtype_of<T>());
    return {reinterpret_cast<const T*>(bytes_.get()), static_cast<std::size_t>(size())};
  }
  /// An element of any type, by its place in memory.
  double number(std::int64_t i) const;

 private:
  void check_dtype(DType wanted) const {
    BRAID_CHECK(wanted == dtype_, ShapeError, "[array] expected elements of ", wanted, ", the array holds ", dtype_);
  }

  DType dtype_ = DType::f32;
  Shape shape_;
  std::shared_ptr<std::byte[]> bytes_;
};

/// Prints dtype, shape and elements in nested brackets. Of more than 1000 elements, three at both ends of each axis.
std::ostream& operator<<(std::ostream& out, const Array& array);

}  // namespace braid
