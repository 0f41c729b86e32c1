// Configs of all kinds. What a config says is written back as YAML that says the same.

#include "tests/fuzz/fuzz.h"
#include "train/config/config.h"
#include "train/config/pathnet_config.h"

namespace braid::fuzz {
namespace {

std::string canonical(std::string_view text) {
  const ConfigNode tree = parse_config(text, "config.yaml");
  const auto pathnet = read_pathnet_config(tree);
  return pathnet ? to_yaml(*pathnet) : to_yaml(read_run_config(tree));
}

void read(std::string_view input) {
  std::string written;
  if (accepts<ConfigError>([&] { written = canonical(input); })) {
    require(canonical(written) == written, "a config that stays the same");
  }
  static const ConfigNode base = parse_config("{name: base, model: {name: mlp}, data: {name: synthetic}}", "base.yaml");
  accepts<ConfigError>([&] { read_run_config(base, {std::string(input)}); });
}

}  // namespace

const Fuzzer kFuzzer{.read = read, .fixed_bytes = 4 << 20, .bytes_per_byte = 8 << 10};

}  // namespace braid::fuzz
