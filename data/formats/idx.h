#pragma once
// The IDX format of MNIST and similar datasets: two zero bytes, the element type, the rank, the dimensions as
// big-endian 32-bit numbers, then the elements with the last dimension fastest.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/shape.h"

namespace braid {

struct Idx {
  Shape shape;
  std::vector<std::uint8_t> values;  ///< shape.size() of them
};

/// Offset of the first element in an IDX file of this rank, in bytes.
constexpr std::size_t idx_header_bytes(int rank) { return 4 + 4 * static_cast<std::size_t>(rank); }

/// Parses IDX content of type u8. `name` is the file, for messages; bytes in messages are those of the content.
/// Throws DataError unless the header is valid and the content ends exactly with the last element.
Idx parse_idx(std::vector<std::uint8_t> content, const std::string& name);

}  // namespace braid
