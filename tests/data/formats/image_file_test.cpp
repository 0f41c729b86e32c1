#include "data/formats/image_file.h"

#include <doctest/doctest.h>

#include <algorithm>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

#include "core/base/error.h"
#include "tests/data/images.h"

using namespace braid;
using namespace braid::testing;

Bytes braid::testing::jpeg(int height, int width, int channels, const Bytes& pixels, int quality) {
  Bytes file;
  const auto append = [](void* to, void* bytes, int count) {
    const auto* first = static_cast<const std::uint8_t*>(bytes);
    static_cast<Bytes*>(to)->insert(static_cast<Bytes*>(to)->end(), first, first + count);
  };
  stbi_write_jpg_to_func(append, &file, width, height, channels, pixels.data(), quality);
  return file;
}

namespace {

Bytes decode(const Bytes& file, int channels = 3) { return bytes_of(decode_image(text_of(file), "x", channels)); }

std::string decode_error(const Bytes& file) {
  return error_of<DataError>([&] { decode_image(text_of(file), "x", 3); });
}

}  // namespace

TEST_CASE("a PNG gives its pixels, whatever its kind") {
  const Bytes rgb = random_bytes(5 * 4 * 3, 1), grey = random_bytes(5 * 4, 2);
  CHECK(decode(png(5, 4, 8, 2, rgb)) == rgb);
  CHECK(decode(png(5, 4, 8, 0, grey), 1) == grey);
  Bytes repeated, with_alpha, grey_with_alpha;
  for (std::size_t i = 0; i < grey.size(); ++i) {
    repeated.insert(repeated.end(), 3, grey[i]);
    with_alpha.insert(with_alpha.end(), {rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2], grey[i]});
    grey_with_alpha.insert(grey_with_alpha.end(), {grey[i], 7});
  }
  CHECK(decode(png(5, 4, 8, 0, grey)) == repeated);
  CHECK(decode(png(5, 4, 8, 6, with_alpha)) == rgb);
  CHECK(decode(png(5, 4, 8, 4, grey_with_alpha)) == repeated);
  CHECK(decode(png(1, 4, 2, 3, {0b00011011}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})) ==
        Bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(decode(png(1, 8, 1, 0, {0b10100000}), 1) == Bytes{255, 0, 255, 0, 0, 0, 0, 0});
}

TEST_CASE("transparent pixels show the background, if there is one") {
  const Bytes file = png(1, 3, 8, 6, {10, 20, 30, 255, 10, 20, 30, 0, 200, 100, 0, 51});
  const double sky[] = {0, 0.5, 1}, white[] = {1};
  const auto painted = [](const Bytes& bytes, int channels, std::span<const double> background) {
    const Image image = decode_image(text_of(bytes), "x", channels, background);
    CHECK(image.has_alpha);
    return bytes_of(image);
  };
  CHECK(painted(file, 3, {}) == Bytes{10, 20, 30, 10, 20, 30, 200, 100, 0});
  CHECK(painted(file, 3, sky) == Bytes{10, 20, 30, 0, 128, 255, 40, 122, 204});
  CHECK(painted(png(1, 2, 8, 4, {9, 255, 9, 0}), 1, white) == Bytes{9, 255});
  const Bytes opaque = png(1, 1, 8, 2, {1, 2, 3});
  CHECK(bytes_of(decode_image(text_of(opaque), "x", 3, sky)) == Bytes{1, 2, 3});
  CHECK_FALSE(decode_image(text_of(opaque), "x", 3, sky).has_alpha);
  CHECK_THROWS_AS(decode_image(text_of(file), "x", 3, white), Error);
}

TEST_CASE("of 16 bits per channel the upper 8 are kept, and the header says 16") {
  const Bytes file = png(1, 2, 16, 0, {0x12, 0xff, 0xfe, 0x00});
  CHECK(decode(file, 1) == Bytes{0x12, 0xfe});
  CHECK(read_image_header(text_of(file), "x").bits == 16);
  CHECK(read_image_header(text_of(png(1, 1, 8, 0, {1})), "x").bits == 8);
}

TEST_CASE("a JPEG gives its pixels, in colour and in grey") {
  const Bytes red = decode(jpeg(9, 17, 3, plain(9, 17, {200, 30, 40})));
  CHECK(red.size() == 9 * 17 * 3);
  for (std::size_t i = 0; i < red.size(); i += 3) {
    CHECK(std::abs(red[i] - 200) <= 2);
    CHECK(std::abs(red[i + 1] - 30) <= 2);
    CHECK(std::abs(red[i + 2] - 40) <= 2);
  }
  CHECK(std::abs(decode(jpeg(8, 8, 1, plain(8, 8, {99})), 1)[5] - 99) <= 1);
}

TEST_CASE("the orientation of EXIF turns a JPEG upright") {
  // Stored: red on the left, blue on the right. 16 pixels each, so that no block mixes them.
  Bytes stored;
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 32; ++x) {
      const Bytes colour = x < 16 ? Bytes{250, 0, 0} : Bytes{0, 0, 250};
      stored.insert(stored.end(), colour.begin(), colour.end());
    }
  }
  // A white corner at the top left tells mirrored images apart.
  for (int y = 0; y < 8; ++y) std::fill_n(stored.begin() + y * 32 * 3, 8 * 3, std::uint8_t{255});
  const Bytes file = jpeg(16, 32, 3, stored);
  struct Expected {
    std::uint8_t orientation;
    bool wide;
    int corner_y, corner_x;  // where the white corner is: 0 or 1
    bool red_first;          // red is on the left, or at the top
  };
  for (const auto& [orientation, wide, corner_y, corner_x, red_first] : {Expected{1, true, 0, 0, true},
                                                                         {2, true, 0, 1, false},
                                                                         {3, true, 1, 1, false},
                                                                         {4, true, 1, 0, true},
                                                                         {5, false, 0, 0, true},
                                                                         {6, false, 0, 1, true},
                                                                         {7, false, 1, 1, false},
                                                                         {8, false, 1, 0, false}}) {
    CAPTURE(int{orientation});
    for (const bool little_endian : {true, false}) {
      const Bytes turned = with_orientation(file, orientation, little_endian);
      CHECK(decode(with_orientation(file, orientation, little_endian, true)) == decode(turned));
      const Image image = decode_image(text_of(turned), "x", 3);
      const ImageHeader header = read_image_header(text_of(turned), "x");
      const std::int64_t height = wide ? 16 : 32, width = wide ? 32 : 16;
      CHECK(image.shape == Shape{height, width, 3});
      CHECK((header.height == height && header.width == width));
      const auto pixel = [&](std::int64_t y, std::int64_t x) {
        return &image.pixels[static_cast<std::size_t>((y * width + x) * 3)];
      };
      const std::uint8_t* corner = pixel(corner_y * (height - 5) + 2, corner_x * (width - 5) + 2);
      CHECK((corner[0] > 230 && corner[1] > 230));
      const std::uint8_t* end = wide ? pixel(8, red_first ? 28 : 3) : pixel(red_first ? 28 : 3, 8);
      CHECK((end[2] > 200 && end[0] < 50));
    }
  }
  CHECK(decode(with_orientation(file, 9)) == decode(file));
}

TEST_CASE("a damaged image is a DataError that names the file and says why") {
  const Bytes good_png = png(16, 16, 8, 2, random_bytes(768, 3)), good_jpeg = jpeg(16, 16, 3, random_bytes(768, 4));
  CHECK(decode_error({}) == "x: not a PNG or JPEG image");
  CHECK(decode_error({'G', 'I', 'F', '8'}) == "x: not a PNG or JPEG image");
  CHECK(contains(decode_error(Bytes(good_png.begin(), good_png.end() - 20)), "a PNG chunk of"));
  CHECK(contains(decode_error(Bytes(good_png.begin(), good_png.end() - 12)), "truncated PNG"));
  CHECK(contains(decode_error(Bytes(good_jpeg.begin(), good_jpeg.end() - 30)), "truncated JPEG"));
  Bytes flipped = good_png;
  flipped[60] ^= 1;
  CHECK(contains(decode_error(flipped), "the checksum of a chunk does not match"));
}

TEST_CASE("a JPEG of four colours that does not say how they are stored is refused") {
  Bytes file = jpeg(8, 8, 3, random_bytes(192, 5));
  const Bytes start_of_frame = {0xff, 0xc0};
  const auto frame = std::search(file.begin(), file.end(), start_of_frame.begin(), start_of_frame.end());
  REQUIRE(frame != file.end());
  frame[9] = 4;
  CHECK(contains(decode_error(file), "a CMYK image without Adobe's marker"));
  const Bytes marker = {0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0};
  file.insert(file.begin() + 2, marker.begin(), marker.end());
  CHECK(!contains(decode_error(file), "CMYK"));  // but this frame has no fourth colour
}

TEST_CASE("a size that the file cannot hold is refused before anything is allocated") {
  Bytes huge = png(1, 1, 8, 2, {1, 2, 3});
  huge[16 + 2] = 0x3f;  // a width of 16129
  huge[20 + 2] = 0x3f;
  CHECK(contains(decode_error(huge), "which a file of"));
  huge[16] = 1;
  CHECK(contains(decode_error(huge), "x: "));
  Bytes wide = jpeg(8, 8, 1, plain(8, 8, {9}));
  for (std::size_t i = 0; i + 8 < wide.size(); ++i) {
    if (wide[i] == 0xff && wide[i + 1] == 0xc0) wide[i + 5] = wide[i + 7] = 0x3f;
  }
  CHECK(contains(decode_error(wide), "which a file of"));
}

TEST_CASE("Huffman tables that a JPEG lacks, or that are too long, are errors") {
  const Bytes good = jpeg(16, 16, 3, random_bytes(768, 4));
  const Bytes marker = {0xff, 0xc4};
  const auto table = std::search(good.begin(), good.end(), marker.begin(), marker.end()) - good.begin();
  Bytes without = good, too_long = good, unknown = good;
  without[static_cast<std::size_t>(table) + 1] = 0xfe;  // a comment
  CHECK(contains(decode_error(without), "corrupt JPEG: Huffman tables are missing or invalid"));
  for (std::size_t i = 5; i < 21; ++i) too_long[static_cast<std::size_t>(table) + i] = 17;
  CHECK(contains(decode_error(too_long), "Huffman tables are missing or invalid"));
  unknown[static_cast<std::size_t>(table) + 4] = 9;
  CHECK(contains(decode_error(unknown), "Huffman tables are missing or invalid"));
}

TEST_CASE("a JPEG of very many scans, which would take long to decode, is refused") {
  const Bytes good = jpeg(16, 16, 3, random_bytes(768, 4));
  const Bytes marker = {0xff, 0xda};
  const auto scan = std::search(good.begin(), good.end(), marker.begin(), marker.end());
  Bytes many(good.begin(), scan);
  for (int i = 0; i < 99; ++i) many.insert(many.end(), scan, good.end() - 2);
  many.insert(many.end(), scan, good.end());
  CHECK(decode_error(many).empty());
  many.resize(many.size() - 2);
  many.insert(many.end(), scan, good.end());
  CHECK(decode_error(many) == "x: corrupt JPEG: more than 100 scans");
}

TEST_CASE("an encoded PNG decodes to the same pixels") {
  const Bytes rgb = random_bytes(5 * 4 * 3, 12), grey = random_bytes(12, 13);
  CHECK(bytes_of(decode_image(encode_png({{5, 4, 3}, rgb}), "x", 3)) == rgb);
  CHECK(bytes_of(decode_image(encode_png({{3, 4, 1}, grey}), "x", 1)) == grey);
}
