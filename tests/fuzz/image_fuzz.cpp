// PNG and JPEG.

#include <zlib.h>

#include <cstdint>
#include <cstring>

#include "core/base/error.h"
#include "data/formats/image_file.h"
#include "tests/fuzz/fuzz.h"

namespace braid::fuzz {
namespace {

void read(std::string_view input) {
  const int channels = input.size() % 2 == 0 ? 1 : 3;
  accepts<DataError>([&] {
    const Image image = decode_image(input, "image", channels);
    const ImageHeader header = read_image_header(input, "image");
    require(image.shape == Shape{header.height, header.width, channels}, "the size in the header");
    require(image.pixels.size() == static_cast<std::size_t>(image.shape.size()), "all pixels");
  });
}

/// Makes the checksums of a PNG's chunks right, without which everything in them goes unread.
void mend_checksums(std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kSignature = 8, kChunk = 12;
  const auto u32 = [data](std::size_t at) {
    return std::size_t{data[at]} << 24 | std::size_t{data[at + 1]} << 16 | std::size_t{data[at + 2]} << 8 |
           data[at + 3];
  };
  if (size < kSignature || std::memcmp(data, "\x89PNG\r\n\x1a\n", kSignature) != 0) return;
  for (std::size_t at = kSignature; size - at >= kChunk;) {
    const std::size_t length = u32(at);
    if (length > size - at - kChunk) return;
    const auto sum = crc32(0, data + at + 4, static_cast<uInt>(length + 4));
    for (std::size_t i = 0; i < 4; ++i) data[at + 8 + length + i] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
    at += kChunk + length;
  }
}

}  // namespace

/// Within a factor, the bytes that image_file.cpp allows: 1536 per byte of the file.
const Fuzzer kFuzzer{.read = read, .fixed_bytes = 1 << 20, .bytes_per_byte = 8 * 1536};

}  // namespace braid::fuzz

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned) {
  size = LLVMFuzzerMutate(data, size, max_size);
  braid::fuzz::mend_checksums(data, size);
  return size;
}
