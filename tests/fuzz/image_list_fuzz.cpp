// CSV lists of images.

#include "core/base/error.h"
#include "data/formats/image_files.h"
#include "tests/fuzz/fuzz.h"

namespace braid::fuzz {
namespace {

void read(std::string_view input) {
  static MemoryFolder folder;
  const std::string file = folder.write("images.csv", input);
  accepts<DataError>([&] { image_list(file, file, file, "", Split::val, {}); });
  accepts<DataError>([&] { image_list(file, "", "", "/images", Split::train, {}); });
}

}  // namespace

const Fuzzer kFuzzer{.read = read, .fixed_bytes = 256 << 10, .bytes_per_byte = 256};

}  // namespace braid::fuzz
