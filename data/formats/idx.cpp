#include "data/formats/idx.h"

#include <utility>

#include "core/text/text.h"

namespace braid {
namespace {

constexpr int kUnsignedByte = 0x08;

std::int64_t big_endian(const std::uint8_t* bytes) {
  return std::int64_t{bytes[0]} << 24 | std::int64_t{bytes[1]} << 16 | std::int64_t{bytes[2]} << 8 | bytes[3];
}

}  // namespace

Idx parse_idx(std::vector<std::uint8_t> content, const std::string& name) {
  BRAID_CHECK(content.size() >= 4, DataError, name, ": byte ", content.size(), ": truncated IDX header");
  BRAID_CHECK(content[0] == 0 && content[1] == 0, DataError, name,
              ": byte 0: expected an IDX file, which starts with two zero bytes, got ", int{content[0]}, " and ",
              int{content[1]});
  BRAID_CHECK(content[2] == kUnsignedByte, DataError, name,
              ": byte 2: expected IDX elements of type 8 (unsigned byte), got type ", int{content[2]});
  const int rank = content[3];
  BRAID_CHECK(rank >= 1 && rank <= Shape::kMaxRank, DataError, name, ": byte 3: expected 1 to ", Shape::kMaxRank,
              " dimensions, got ", rank);
  const std::size_t header = idx_header_bytes(rank);
  BRAID_CHECK(content.size() >= header, DataError, name, ": byte ", content.size(), ": truncated IDX header: expected ",
              header, " bytes for ", plural(rank, "dimension"));

  std::vector<std::int64_t> extents;
  std::int64_t values = 1, product = 1;  // the product without zeros
  for (std::size_t byte = 4; byte < header; byte += 4) {
    const std::int64_t extent = big_endian(&content[byte]);
    BRAID_CHECK(extent == 0 || product <= Shape::kMaxSize / extent, DataError, name, ": byte ", byte, ": dimension ",
                extent, " makes more elements than any file can hold");
    extents.push_back(extent);
    values *= extent;
    if (extent > 0) product *= extent;
  }
  const Shape shape(extents);
  const std::size_t expected = header + static_cast<std::size_t>(values);
  BRAID_CHECK(content.size() >= expected, DataError, name, ": byte ", content.size(), ": truncated: shape ", shape,
              " needs ", expected, " bytes");
  BRAID_CHECK(content.size() == expected, DataError, name, ": byte ", expected, ": the file continues for ",
              plural(content.size() - expected, "byte"), " after the last element of shape ", shape);
  content.erase(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(header));
  return {shape, std::move(content)};
}

}  // namespace braid
