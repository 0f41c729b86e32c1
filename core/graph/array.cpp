#include "core/graph/array.h"

#include <algorithm>
#include <cstdlib>

namespace braid {

Array::Array(DType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) {
  const std::size_t bytes = size_of(dtype) * static_cast<std::size_t>(shape.size());
  // Unlike new, calloc knows that the pages of a large block are zero already.
  auto* const data = static_cast<std::byte*>(std::calloc(std::max<std::size_t>(bytes, 1), 1));
  if (data == nullptr) {
    throw OutOfMemory(message("[array] cannot allocate ", bytes, " bytes for an array of ", dtype, ' ', shape));
  }
  bytes_.reset(data, std::free);
}

}  // namespace braid
