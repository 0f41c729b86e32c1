#include "train/pathnet/config.h"

namespace braid {

std::optional<PathNetConfig> read_pathnet_config(ConfigNode tree, const std::vector<std::string>& overrides) {
  for (const std::string& assignment : overrides) apply_override(tree, assignment);
  if (tree.find("evolution") == nullptr) return std::nullopt;
  return read_config<PathNetConfig>(tree);
}

std::optional<PathNetConfig> read_pathnet_config(const std::filesystem::path& path,
                                                 const std::vector<std::string>& overrides) {
  return read_pathnet_config(read_config_file(path), overrides);
}

std::string to_yaml(PathNetConfig config) {
  return to_yaml(note_keys([&](const Keys& keys) { config.declare(keys); }));
}

}  // namespace braid
