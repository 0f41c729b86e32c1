#include "data/formats/gzip.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

std::string error_from(const std::string& path, std::uint32_t max_bytes = kMaxDataFileBytes) {
  return error_of<DataError>([&] { read_data_file(path, max_bytes); });
}

}  // namespace

TEST_CASE("a plain file is read as it is") {
  const TemporaryFolder folder;
  for (const std::size_t size : {0, 1, 2, 1000}) {
    const Bytes content = random_bytes(size, 1);
    CHECK(read_data_file(folder.write("plain", content)) == content);
  }
}

TEST_CASE("a gzip file is decompressed whatever its name") {
  const TemporaryFolder folder;
  for (const std::size_t size : {0, 1, 65535, 65536, 65537, 300000}) {  // about the first size of the output buffer
    const Bytes content = random_bytes(size, 2);
    CHECK(read_data_file(folder.write("no-ending", gzip(content))) == content);
  }
}

TEST_CASE("a missing file and a folder are errors that name the path") {
  const TemporaryFolder folder;
  CHECK(contains(error_from(folder.path() + "/absent.gz"), "absent.gz: cannot read the data: No such file"));
  CHECK(
      contains(error_from(folder.path()), folder.path() + ": cannot read the data: expected a file, this is a folder"));
}

TEST_CASE("a gzip file cut at any byte is reported as truncated there") {
  const TemporaryFolder folder;
  const Bytes whole = gzip(random_bytes(200, 3));
  for (std::size_t cut = 2; cut < whole.size(); ++cut) {  // with fewer bytes it is not known as gzip
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut));
    const std::string error = error_from(folder.write("cut.gz", part));
    CHECK_MESSAGE(contains(error, "cut.gz: truncated"), error);
    CHECK_MESSAGE(contains(error, message("byte ", cut, ",")), error);
  }
}

TEST_CASE("a wrong checksum is reported as corruption at its byte") {
  const TemporaryFolder folder;
  Bytes damaged = gzip(random_bytes(100, 4));
  damaged[damaged.size() - 8] ^= 1;  // the CRC comes before the length, four bytes each
  const std::string error = error_from(folder.write("crc.gz", damaged));
  CHECK_MESSAGE(contains(error, message("crc.gz: byte ", damaged.size() - 4, ": corrupt gzip stream")), error);
}

TEST_CASE("bytes after the gzip stream are an error") {
  const TemporaryFolder folder;
  Bytes longer = gzip(random_bytes(100, 5));
  const std::size_t end = longer.size();
  longer.insert(longer.end(), {1, 2, 3});
  CHECK(contains(error_from(folder.write("longer.gz", longer)), message("byte ", end, ": 3 bytes follow")));
}

TEST_CASE("content up to the limit is read and one byte more is an error") {
  const TemporaryFolder folder;
  const std::uint32_t limit = 100000;
  CHECK(read_data_file(folder.write("fits.gz", gzip(Bytes(limit, 0))), limit).size() == limit);
  CHECK(read_data_file(folder.write("fits", Bytes(limit, 0)), limit).size() == limit);
  CHECK(contains(error_from(folder.write("bomb.gz", gzip(Bytes(limit + 1, 0))), limit), "more than the limit"));
  CHECK(contains(error_from(folder.write("large", Bytes(limit + 1, 0)), limit),
                 "cannot read the data: it is larger than 100000 bytes"));
}
