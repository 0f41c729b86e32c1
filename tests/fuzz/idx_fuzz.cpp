// MNIST and its relatives: IDX files, compressed or not.

#include "core/base/error.h"
#include "data/formats/fashion_mnist.h"
#include "data/formats/gzip.h"
#include "data/formats/idx.h"
#include "tests/fuzz/fuzz.h"

namespace braid::fuzz {
namespace {

void read(std::string_view input) {
  using namespace std::string_literals;
  static const std::string one_image = "\0\0\x08\x03\0\0\0\x01\0\0\0\x1c\0\0\0\x1c"s + std::string(784, '\x7f'),
                           one_label = "\0\0\x08\x01\0\0\0\x01\x09"s;
  static MemoryFolder folder;
  const std::string file = folder.write("train-images-idx3-ubyte", input);
  folder.write("train-labels-idx1-ubyte", one_label);
  accepts<DataError>([&] {
    const Idx parsed = parse_idx(read_data_file(file), file);
    require(std::ssize(parsed.values) == parsed.shape.size(), "as many values as the shape says");
  });
  accepts<DataError>([] { mnist(folder.path(), Split::train); });
  folder.write("train-images-idx3-ubyte", one_image);
  folder.write("train-labels-idx1-ubyte", input);
  accepts<DataError>([] { mnist(folder.path(), Split::train); });
}

}  // namespace

/// A byte of gzip is at most 1032 bytes of content, which is copied as it grows.
const Fuzzer kFuzzer{.read = read, .fixed_bytes = 1 << 20, .bytes_per_byte = 4 * 1032};

}  // namespace braid::fuzz
