#pragma once
// Configs of a single job.

#include <string>
#include <vector>

#include "train/config/config.h"

namespace braid {

/// `source` is the name of the text in messages.
inline TrainConfig parse_train_config(std::string_view text, const std::string& source,
                                      const std::vector<std::string>& overrides = {}) {
  return read_run_config(parse_config(text, source), overrides).jobs.front().training;
}

inline TrainConfig read_train_config(const std::filesystem::path& path) {
  return read_run_config(path).jobs.front().training;
}

}  // namespace braid
