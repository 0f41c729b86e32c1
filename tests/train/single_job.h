#pragma once
// Configs of a single job, and what is wrong with one of any kind.

#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/data/files.h"
#include "train/config/config.h"
#include "train/config/pathnet_config.h"

namespace braid {

/// `source` is the name of the text in messages.
inline TrainConfig parse_train_config(std::string_view text, const std::string& source,
                                      const std::vector<std::string>& overrides = {}) {
  return read_run_config(parse_config(text, source), overrides).jobs.front().training;
}

inline TrainConfig read_train_config(const std::filesystem::path& path) {
  return read_run_config(path).jobs.front().training;
}

/// The error in a config, whose name is x.yaml; empty if there is none.
inline std::string error_in(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return testing::error_of<ConfigError>([&] {
    const ConfigNode tree = parse_config(text, "x.yaml");
    if (!read_pathnet_config(tree, overrides)) read_run_config(tree, overrides);
  });
}

}  // namespace braid
