#include "data/formats/idx.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

std::string error_from_idx(const Bytes& content) {
  return error_of<DataError>([&] { parse_idx(content, "file"); });
}

}  // namespace

TEST_CASE("an IDX file gives its shape and its values") {
  const Idx parsed = parse_idx(idx({2, 1, 3}, {1, 2, 3, 4, 5, 6}), "file");
  CHECK(parsed.shape == Shape{2, 1, 3});
  CHECK(parsed.values == Bytes{1, 2, 3, 4, 5, 6});
}

TEST_CASE("dimensions are read most significant byte first") {
  CHECK(parse_idx(idx({0x0102}, Bytes(0x0102)), "file").shape == Shape{258});
}

TEST_CASE("an IDX file without elements is valid") { CHECK(parse_idx(idx({3, 0}, {}), "file").values.empty()); }

TEST_CASE("an IDX file cut at any byte is an error that names the byte") {
  const Bytes whole = idx({2, 3}, {1, 2, 3, 4, 5, 6});
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    const std::string error = error_from_idx(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut)));
    CHECK_MESSAGE(contains(error, message("file: byte ", cut, ": truncated")), error);
  }
}

TEST_CASE("bytes after the last element are an error") {
  CHECK(contains(error_from_idx(idx({2}, {1, 2, 3})), "file: byte 10: the file continues for 1 byte after"));
}

TEST_CASE("a wrong magic number is an error that says which byte is wrong") {
  CHECK(contains(error_from_idx({1, 0, 8, 1, 0, 0, 0, 0}), "byte 0: expected an IDX file"));
  CHECK(contains(error_from_idx({0, 1, 8, 1, 0, 0, 0, 0}), "byte 0: expected an IDX file"));
  CHECK(contains(error_from_idx({0, 0, 13, 1, 0, 0, 0, 0}), "byte 2: expected IDX elements of type 8"));
  CHECK(contains(error_from_idx({0, 0, 8, 0, 0, 0, 0, 0}), "byte 3: expected 1 to 6 dimensions, got 0"));
  CHECK(contains(error_from_idx({0, 0, 8, 7, 0, 0, 0, 0}), "byte 3: expected 1 to 6 dimensions, got 7"));
}

TEST_CASE("dimensions whose product overflows are an error and not an allocation") {
  const std::uint32_t huge = 0xffffffff;
  CHECK(contains(error_from_idx(idx({huge, huge, huge}, {})), "byte 8: dimension 4294967295 makes more"));
  CHECK(contains(error_from_idx(idx({1u << 31, 1u << 28, 8}, {})),
                 "byte 12: dimension 8 makes more"));  // 2^64, that is 0
  CHECK(contains(error_from_idx(idx({huge}, {1, 2, 3})), "truncated: shape [4294967295] needs 4294967303 bytes"));
}
