#include "data/transforms/resize.h"

#include <doctest/doctest.h>

#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

Bytes pattern(int count) {
  Bytes pixels;
  for (int i = 0; i < count; ++i) pixels.push_back(static_cast<std::uint8_t>((i * 37 + i / 5 * 11) % 256));
  return pixels;
}

Bytes resized(const Shape& shape, const Bytes& pixels, const Window& from, std::int64_t height, std::int64_t width,
              const Window& shown) {
  Bytes out(static_cast<std::size_t>(shown.height * shown.width * shape[2]));
  resize({shape, pixels}, from, height, width, shown, out);
  return out;
}

Bytes resized(const Shape& shape, const Bytes& pixels, std::int64_t height, std::int64_t width) {
  return resized(shape, pixels, {0, 0, shape[0], shape[1]}, height, width, {0, 0, height, width});
}

bool within_one(const Bytes& a, const std::vector<int>& b) {
  bool close = a.size() == b.size();
  for (std::size_t i = 0; close && i < a.size(); ++i) close = std::abs(a[i] - b[i]) <= 1;
  return close;
}

}  // namespace

// The expected pixels are those of Pillow 12: Image.resize(size, Image.BILINEAR). It rounds twice, hence ± 1.
TEST_CASE("resizing gives what Pillow gives, smaller, larger and of a part") {
  CHECK(within_one(resized({7, 9, 3}, pattern(189), 3, 4),
                   {91,  110, 126, 129, 120, 136, 136, 121, 115, 141, 137, 119, 138, 107, 120, 131, 129, 119,
                    117, 141, 148, 110, 118, 125, 133, 147, 136, 107, 119, 131, 143, 119, 132, 152, 106, 122}));
  CHECK(within_one(resized({6, 5, 1}, pattern(30), 4, 8),
                   {74, 90, 107, 70,  64,  87,  110, 126, 149, 165, 183, 153, 150, 173, 116, 70,
                    63, 79, 102, 125, 149, 172, 179, 182, 139, 155, 168, 91,  65,  88,  111, 127}));
  CHECK(within_one(
      resized({7, 9, 3}, pattern(189), {1, 2, 5, 5}, 7, 3, {0, 0, 7, 3}),
      {59,  96,  140, 186, 86,  123, 176, 66,  103, 80,  117, 159, 125, 105, 143, 109, 86,  123, 106, 143, 151,
       89,  128, 152, 69,  111, 148, 130, 167, 95,  114, 151, 138, 94,  137, 174, 151, 115, 121, 140, 137, 120,
       120, 158, 120, 129, 109, 146, 140, 122, 127, 145, 135, 115, 87,  129, 166, 126, 109, 146, 165, 92,  136}));
}

TEST_CASE("resizing to the same size changes nothing, and a plain image stays plain") {
  const Bytes pixels = random_bytes(7 * 5 * 3, 1);
  CHECK(resized({7, 5, 3}, pixels, 7, 5) == pixels);
  for (const std::int64_t size : {1, 2, 11, 40}) {
    CHECK(resized({7, 5, 1}, Bytes(35, 255), size, size) == Bytes(static_cast<std::size_t>(size * size), 255));
    CHECK(resized({1, 1, 2}, {3, 200}, size, 1) == [&] {
      Bytes all;
      for (std::int64_t i = 0; i < size; ++i) all.insert(all.end(), {3, 200});
      return all;
    }());
  }
}

TEST_CASE("showing a part of the result equals cropping it") {
  const Bytes pixels = random_bytes(13 * 11 * 3, 2);
  for (const std::int64_t size : {5, 20}) {
    const Bytes whole = resized({13, 11, 3}, pixels, size, size + 1);
    const Window part{1, 2, 3, 2};
    const Bytes shown = resized({13, 11, 3}, pixels, {0, 0, 13, 11}, size, size + 1, part);
    for (std::int64_t y = 0; y < part.height; ++y) {
      for (std::int64_t i = 0; i < part.width * 3; ++i) {
        CHECK(shown[static_cast<std::size_t>(y * part.width * 3 + i)] ==
              whole[static_cast<std::size_t>(((y + part.top) * (size + 1) + part.left) * 3 + i)]);
      }
    }
  }
}
