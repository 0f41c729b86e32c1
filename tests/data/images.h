#pragma once
// Image files for the tests: PNG of every kind, JPEG, and an orientation of EXIF.

#include <zlib.h>

#include <cstdint>
#include <string>

#include "data/dataset.h"
#include "tests/data/files.h"

namespace braid::testing {

/// u8 [H,W,channels] as a JPEG file (image_file_test.cpp).
Bytes jpeg(int height, int width, int channels, const Bytes& pixels, int quality = 100);

/// Every pixel has this colour.
inline Bytes plain(int height, int width, const Bytes& colour) {
  Bytes pixels;
  for (int i = 0; i < height * width; ++i) pixels.insert(pixels.end(), colour.begin(), colour.end());
  return pixels;
}

inline void append_chunk(Bytes& png, const std::string& type, const Bytes& data) {
  append_u32(png, static_cast<std::uint32_t>(data.size()));
  Bytes chunk(type.begin(), type.end());
  chunk.insert(chunk.end(), data.begin(), data.end());
  png.insert(png.end(), chunk.begin(), chunk.end());
  append_u32(png, static_cast<std::uint32_t>(crc32(0, chunk.data(), static_cast<uInt>(chunk.size()))));
}

/// A PNG file. `color` is 0 grey, 2 RGB, 3 palette, 4 grey with alpha, 6 RGBA; rows: the pixels, without filter bytes.
inline Bytes png(int height, int width, int bits, int color, const Bytes& rows, const Bytes& palette = {}) {
  Bytes file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, header;
  append_u32(header, static_cast<std::uint32_t>(width));
  append_u32(header, static_cast<std::uint32_t>(height));
  for (const int field : {bits, color, 0, 0, 0}) header.push_back(static_cast<std::uint8_t>(field));
  append_chunk(file, "IHDR", header);
  if (!palette.empty()) append_chunk(file, "PLTE", palette);
  Bytes filtered;
  const std::size_t row = rows.size() / static_cast<std::size_t>(height);
  for (std::size_t at = 0; at < rows.size(); at += row) {
    filtered.push_back(0);
    filtered.insert(filtered.end(), rows.begin() + static_cast<std::ptrdiff_t>(at),
                    rows.begin() + static_cast<std::ptrdiff_t>(at + row));
  }
  uLongf size = compressBound(static_cast<uLong>(filtered.size()));
  Bytes compressed(size);
  if (compress(compressed.data(), &size, filtered.data(), static_cast<uLong>(filtered.size())) != Z_OK) std::abort();
  compressed.resize(size);
  append_chunk(file, "IDAT", compressed);
  append_chunk(file, "IEND", {});
  return file;
}

/// The JPEG file with an EXIF segment that states the orientation, as a number of 16 bits or of 32.
inline Bytes with_orientation(const Bytes& jpeg, std::uint8_t orientation, bool little_endian = true,
                              bool is_long = false) {
  const std::uint8_t type = is_long ? 4 : 3;
  Bytes tiff = little_endian
                   ? Bytes{'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, type, 0, 1, 0, 0, 0, orientation, 0, 0, 0}
                   : Bytes{'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, type, 0, 0, 0, 1, 0, 0, 0, 0};
  if (!little_endian) tiff[is_long ? 21 : 19] = orientation;
  Bytes segment = {0xff, 0xe1, 0, static_cast<std::uint8_t>(tiff.size() + 8), 'E', 'x', 'i', 'f', 0, 0};
  segment.insert(segment.end(), tiff.begin(), tiff.end());
  Bytes file = jpeg;
  file.insert(file.begin() + 2, segment.begin(), segment.end());
  return file;
}

inline std::string text_of(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }
inline Bytes bytes_of(const Image& image) { return {image.pixels.begin(), image.pixels.end()}; }

}  // namespace braid::testing
