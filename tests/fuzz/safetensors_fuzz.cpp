// Checkpoints: safetensors, of Braid and of other tools.

#include "core/base/error.h"
#include "tests/fuzz/fuzz.h"
#include "train/checkpoint/safetensors.h"

namespace braid::fuzz {
namespace {

void read(std::string_view input) {
  static MemoryFolder folder;
  const std::string path = folder.write("x.safetensors", input);
  accepts<DataError>([&] {
    const SafeTensors file(path);
    for (const auto& entry : file.entries()) {
      accepts<DataError>([&] { require(file.array(entry.first).bytes() == entry.second.bytes, "all elements"); });
    }
  });
}

}  // namespace

const Fuzzer kFuzzer{.read = read, .fixed_bytes = 256 << 10, .bytes_per_byte = 256};

}  // namespace braid::fuzz
