#pragma once
// Trains a single job without output.

#include <sstream>

#include "train/run/trainer.h"

namespace braid::testing {

inline RunConfig as_run(const TrainConfig& config) { return {config.name, config.output_root, {{config, 1}}, false}; }

inline TrainResult train(const TrainConfig& config) {
  std::ostringstream out;
  Progress progress(out, Progress::Mode::quiet);
  return Trainer(as_run(config)).run(progress).jobs.front();
}

}  // namespace braid::testing
