#include "core/array.h"

namespace braid {

Array::Array(DType dtype, const Shape& shape)
    : dtype_(dtype),
      shape_(shape),
      bytes_(std::make_shared<std::byte[]>(size_of(dtype) * static_cast<std::size_t>(shape.size()))) {}

}  // namespace braid
