#include "data/formats/image_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

// Formats and features that Braid does not need would only add risk.
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_MAX_DIMENSIONS 16384
#define STBI_ASSERT(condition) static_cast<void>(0)  // a damaged file must not end the program
#include <stb/stb_image.h>
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

#include "core/base/error.h"

namespace braid {
namespace {

constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n", kJpeg = "\xff\xd8\xff";
/// A byte of deflate holds at most 1032 bytes, and one of JPEG, with a bit per block of 8×8, at most 1536.
constexpr std::int64_t kMaxExpansion = 1536;

struct ByteReader {
  std::string_view content;
  bool little_endian = false;

  std::size_t byte(std::size_t at) const { return static_cast<std::uint8_t>(content[at]); }
  std::size_t u16(std::size_t at) const {
    return little_endian ? byte(at + 1) << 8 | byte(at) : byte(at) << 8 | byte(at + 1);
  }
  std::size_t u32(std::size_t at) const {
    return little_endian ? u16(at + 2) << 16 | u16(at) : u16(at) << 16 | u16(at + 2);
  }
};

/// EXIF's tag Orientation in a TIFF header, 1 to 8; 1 if there is none.
int orientation_of(std::string_view tiff) {
  constexpr std::size_t kHeader = 8, kEntry = 12, kOrientation = 0x0112;
  if (tiff.size() < kHeader) return 1;
  const ByteReader bytes{tiff, tiff.starts_with("II")};
  const std::size_t directory = bytes.u32(4);
  if (directory > tiff.size() - 2) return 1;
  const std::size_t entries = std::min(bytes.u16(directory), (tiff.size() - directory - 2) / kEntry);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntry;
    if (bytes.u16(entry) != kOrientation) continue;
    const bool is_long = bytes.u16(entry + 2) == 4;
    const std::size_t value = is_long ? bytes.u32(entry + 8) : bytes.u16(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

/// Walks over the segments of a JPEG as the decoder does: f(marker, data) until it returns false. The data that a scan
/// encodes are part of no segment. Returns whether the end marker was reached.
template <class F>
bool for_each_segment(std::string_view content, const F& f) {
  constexpr std::size_t kEnd = 0xd9, kStartOfScan = 0xda;
  const ByteReader bytes{content};
  bool in_scan = false;
  for (std::size_t at = 2; (at = content.find('\xff', at)) < content.size() - 1;) {
    const std::size_t marker = bytes.byte(at + 1);
    const bool stuffed = in_scan && (marker == 0 || (marker >= 0xd0 && marker <= 0xd7));
    if (marker == 0xff || stuffed) {  // padding, or data
      at += stuffed ? 2 : 1;
      continue;
    }
    if (marker == kEnd) return true;
    if (at + 4 > content.size()) return false;
    const std::string_view data = content.substr(at + 4, std::max<std::size_t>(bytes.u16(at + 2), 2) - 2);
    if (!f(marker, data)) return false;
    in_scan = marker == kStartOfScan;
    at += 4 + data.size();
  }
  return false;
}

int jpeg_orientation(std::string_view content) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  int orientation = 1;
  for_each_segment(content, [&](std::size_t marker, std::string_view data) {
    if (marker == 0xe1 && data.starts_with(kExif)) orientation = orientation_of(data.substr(kExif.size()));
    return marker != 0xda;
  });
  return orientation;
}

/// Which of the Huffman tables 0 to 3 are defined, for DC and AC.
using HuffmanTables = std::array<std::array<bool, 4>, 2>;

/// Notes the tables of a segment; false if one has more than 256 codes.
bool note_tables(std::string_view segment, HuffmanTables& tables) {
  constexpr std::size_t kLengths = 16, kMostCodes = 256;
  const ByteReader bytes{segment};
  for (std::size_t at = 0; at < segment.size();) {
    if (segment.size() - at < 1 + kLengths || bytes.byte(at) >> 4 > 1 || (bytes.byte(at) & 15) > 3) return false;
    std::size_t codes = 0;
    for (std::size_t i = 1; i <= kLengths; ++i) codes += bytes.byte(at + i);
    if (codes > kMostCodes) return false;
    tables[bytes.byte(at) >> 4][bytes.byte(at) & 15] = true;
    at += 1 + kLengths + codes;
  }
  return true;
}

/// Whether a scan uses defined tables only: those of DC, of AC, or, unless it is progressive, both.
bool has_tables(std::string_view scan, bool progressive, const HuffmanTables& tables) {
  const ByteReader bytes{scan};
  const std::size_t components = scan.empty() ? 0 : bytes.byte(0);
  if (scan.size() < 4 + 2 * components) return false;
  const bool dc = !progressive || bytes.byte(1 + 2 * components) == 0;
  for (std::size_t i = 0; i < components; ++i) {
    const std::size_t use = bytes.byte(2 + 2 * i);
    if (use >> 4 > 3 || (use & 15) > 3) return false;
    if ((dc && !tables[0][use >> 4]) || ((!dc || !progressive) && !tables[1][use & 15])) return false;
  }
  return true;
}

/// The decoder trusts the tables of a JPEG, and would fill missing parts with grey. Throws DataError instead.
void check_jpeg(std::string_view content, const std::string& name) {
  constexpr int kMostScans = 100;  // each may take time for all pixels in a few bytes; encoders make a dozen
  HuffmanTables tables = {};
  bool progressive = false, valid = true, four_colours = false, adobe = false;
  int scans = 0;
  const bool complete = for_each_segment(content, [&](std::size_t marker, std::string_view data) {
    progressive = progressive || marker == 0xc2;
    if (marker >= 0xc0 && marker <= 0xc2) four_colours = data.size() > 5 && data[5] == 4;
    if (marker == 0xee) adobe = adobe || data.starts_with("Adobe");
    if (marker == 0xc4) valid = note_tables(data, tables);
    if (marker == 0xda) valid = has_tables(data, progressive, tables) && ++scans <= kMostScans;
    return valid;
  });
  BRAID_CHECK(!four_colours || adobe, DataError, name,
              ": a CMYK image without Adobe's marker, which would say how its colours are stored: convert it to RGB");
  BRAID_CHECK(scans <= kMostScans, DataError, name, ": corrupt JPEG: more than ", kMostScans, " scans");
  BRAID_CHECK(valid, DataError, name, ": corrupt JPEG: Huffman tables are missing or invalid");
  BRAID_CHECK(complete, DataError, name, ": byte ", content.size(), ": truncated JPEG");
}

/// The decoder compares no checksums. Throws DataError at the first chunk that is not intact.
void check_png(std::string_view content, const std::string& name) {
  const ByteReader bytes{content};
  std::size_t at = kPng.size();
  for (std::string_view type; type != "IEND";) {
    BRAID_CHECK(content.size() - at >= 12, DataError, name, ": byte ", content.size(), ": truncated PNG");
    const std::size_t length = bytes.u32(at);
    BRAID_CHECK(length <= content.size() - at - 12, DataError, name, ": byte ", at, ": a PNG chunk of ", length,
                " bytes, but the file ends before");
    type = content.substr(at + 4, 4);
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(type.data()), static_cast<uInt>(length + 4));
    BRAID_CHECK(sum == bytes.u32(at + 8 + length), DataError, name, ": byte ", at + 8 + length,
                ": corrupt PNG: the checksum of a chunk does not match");
    at += 12 + length;
  }
}

const stbi_uc* start_of(std::string_view content) { return reinterpret_cast<const stbi_uc*>(content.data()); }

/// The pixels of an image that is stored with an orientation of EXIF other than 1, as displayed.
Image upright(const Image& stored, int orientation) {
  const std::int64_t rows = stored.shape[0], columns = stored.shape[1], channels = stored.shape[2];
  const bool transposed = orientation >= 5;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const Shape shape = transposed ? Shape{columns, rows, channels} : stored.shape;
  const auto size = static_cast<std::size_t>(shape.size());
  const std::shared_ptr<std::uint8_t> pixels(new std::uint8_t[size], std::default_delete<std::uint8_t[]>());
  std::uint8_t* out = pixels.get();
  for (std::int64_t y = 0; y < shape[0]; ++y) {
    for (std::int64_t x = 0; x < shape[1]; ++x, out += channels) {
      const std::int64_t row = transposed ? x : y, column = transposed ? y : x;
      const std::int64_t at =
          (from_bottom ? rows - 1 - row : row) * columns + (from_right ? columns - 1 - column : column);
      std::copy_n(stored.pixels.data() + at * channels, channels, out);
    }
  }
  return {shape, {pixels.get(), size}, pixels, stored.bits, stored.has_alpha};
}

/// An image over a background: the last of its channels is alpha.
Image painted(const Image& image, std::span<const double> background) {
  const std::int64_t channels = image.shape[2] - 1;
  const Shape shape{image.shape[0], image.shape[1], channels};
  const auto size = static_cast<std::size_t>(shape.size());
  const std::shared_ptr<std::uint8_t> pixels(new std::uint8_t[size], std::default_delete<std::uint8_t[]>());
  std::vector<int> behind;
  for (const double level : background) behind.push_back(static_cast<int>(std::lround(255 * level)));
  const std::uint8_t* in = image.pixels.data();
  std::uint8_t* out = pixels.get();
  for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i, ++in) {
    const int alpha = in[channels];
    for (std::int64_t c = 0; c < channels; ++c) {
      const int sum = *in++ * alpha + behind[static_cast<std::size_t>(c)] * (255 - alpha);
      *out++ = static_cast<std::uint8_t>((sum + 127) / 255);
    }
  }
  return {shape, {pixels.get(), size}, pixels, image.bits, image.has_alpha};
}

}  // namespace

ImageHeader read_image_header(std::string_view content, const std::string& name) {
  const bool png = content.starts_with(kPng);
  BRAID_CHECK(png || content.starts_with(kJpeg), DataError, name, ": not a PNG or JPEG image");
  BRAID_CHECK(content.size() <= kMaxImageBytes, DataError, name, ": larger than ", kMaxImageBytes, " bytes");
  if (!png) check_jpeg(content, name);
  const int size = static_cast<int>(content.size());
  int width = 0, height = 0, channels = 0;
  const bool known = stbi_info_from_memory(start_of(content), size, &width, &height, &channels) != 0;
  BRAID_CHECK(known, DataError, name, ": corrupt ", png ? "PNG" : "JPEG", " header: ", stbi_failure_reason());
  BRAID_CHECK(height <= kMaxImageSide && width <= kMaxImageSide, DataError, name, ": expected an image of at most ",
              kMaxImageSide, " pixels in height and width, got ", height, 'x', width);
  BRAID_CHECK(std::int64_t{height} * width * channels <= kMaxExpansion * static_cast<std::int64_t>(content.size()),
              DataError, name, ": the header says ", height, 'x', width, " pixels, which a file of ", content.size(),
              " bytes cannot hold");
  const int bits = png && stbi_is_16_bit_from_memory(start_of(content), size) != 0 ? 16 : 8;
  const int orientation = png ? 1 : jpeg_orientation(content);
  if (orientation >= 5) std::swap(height, width);
  return {.height = height, .width = width, .channels = channels, .bits = bits, .orientation = orientation};
}

Image decode_image(std::string_view content, const std::string& name, int channels,
                   std::span<const double> background) {
  const ImageHeader header = read_image_header(content, name);
  const bool has_alpha = header.channels % 2 == 0, paints = has_alpha && !background.empty();
  BRAID_CHECK(background.empty() || std::ssize(background) == channels, Error,
              "[decode_image] expected a background of ", channels, " channels, got ", background.size());
  if (content.starts_with(kPng)) check_png(content, name);
  int width = 0, height = 0, stored = 0;
  const std::shared_ptr<std::uint8_t> pixels(
      stbi_load_from_memory(start_of(content), static_cast<int>(content.size()), &width, &height, &stored,
                            channels + (paints ? 1 : 0)),
      stbi_image_free);
  BRAID_CHECK(pixels != nullptr, DataError, name, ": corrupt image: ", stbi_failure_reason());
  const Shape shape{height, width, channels + (paints ? 1 : 0)};
  Image image{shape, {pixels.get(), static_cast<std::size_t>(shape.size())}, pixels, header.bits, has_alpha};
  if (paints) image = painted(image, background);
  return header.orientation == 1 ? image : upright(image, header.orientation);
}

Image decode_mask(std::string_view content, const std::string& name) {
  constexpr std::size_t kBitDepth = 24, kColorType = 25;  // offsets in the header
  const bool is_grey =
      content.starts_with(kPng) && content.size() > kColorType && content[kBitDepth] == 8 && content[kColorType] == 0;
  BRAID_CHECK(is_grey, DataError, name,
              ": expected a mask as a grey PNG of 8 bits without alpha or palette, whose levels are classes");
  return decode_image(content, name, 1);
}

std::string encode_png(const Image& image) {
  const int height = static_cast<int>(image.shape[0]), width = static_cast<int>(image.shape[1]),
            channels = static_cast<int>(image.shape[2]);
  std::string content;
  const auto append = [](void* to, void* bytes, int count) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(bytes), static_cast<std::size_t>(count));
  };
  const bool written =
      stbi_write_png_to_func(append, &content, width, height, channels, image.pixels.data(), width * channels) != 0;
  BRAID_CHECK(written, Error, "[encode_png] out of memory");
  return content;
}

}  // namespace braid
