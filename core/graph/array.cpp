#include "core/graph/array.h"

#include <new>

namespace braid {

Array::Array(DType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) {
  const std::size_t bytes = size_of(dtype) * static_cast<std::size_t>(shape.size());
  try {
    bytes_ = std::make_shared<std::byte[]>(bytes);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(message("[array] cannot allocate ", bytes, " bytes for an array of ", dtype, ' ', shape));
  }
}

}  // namespace braid
