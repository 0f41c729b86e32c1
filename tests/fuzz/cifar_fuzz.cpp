// CIFAR-10 and CIFAR-100: the binary version's batches and names of classes.

#include "core/base/error.h"
#include "data/formats/cifar.h"
#include "tests/fuzz/fuzz.h"

namespace braid::fuzz {
namespace {

void read(std::string_view input) {
  static MemoryFolder ten, hundred, names;
  static const std::string one_image(1 + 3 * 32 * 32, '\x05');
  ten.write("test_batch.bin", input);
  accepts<DataError>([] { cifar10(ten.path(), Split::test); });
  hundred.write("test.bin", input);
  accepts<DataError>([] { cifar100(hundred.path(), Split::test); });
  names.write("test_batch.bin", one_image);
  names.write("batches.meta.txt", input);
  accepts<DataError>([] { cifar10(names.path(), Split::test); });
}

}  // namespace

/// A byte of gzip is at most 1032 bytes of content, which is copied as it grows and into images.
const Fuzzer kFuzzer{.read = read, .fixed_bytes = 1 << 20, .bytes_per_byte = 4 * 1032};

}  // namespace braid::fuzz
