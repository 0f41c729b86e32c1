#pragma once
// Trains, and keeps what is printed.

#include "tests/train/run_files.h"
#include "train/run/trainer.h"

namespace braid::testing {

inline RunConfig as_run(const TrainConfig& config) { return {config.name, config.output_root, {{config, 1}}, false}; }

/// What a training gives and prints.
struct Finished {
  RunResult result;
  std::string output;
};

/// Sends this process a signal once a line contains a text, if there is one.
inline Finished finish(Trainer& trainer, const std::string& signal_at = "", int signal = SIGINT) {
  SignalAt buffer(signal_at, signal);
  std::ostream out(&buffer);
  Progress progress(out, Progress::Mode::lines);
  Finished ran{trainer.run(progress), {}};
  ran.output = buffer.str();
  return ran;
}

/// Continues the run in the folder, if there is one.
inline Finished finish(const RunConfig& config, const std::filesystem::path& resumed = {},
                       const std::string& signal_at = "", int signal = SIGINT) {
  Trainer trainer(config);
  if (!resumed.empty()) trainer.resume(resumed);
  return finish(trainer, signal_at, signal);
}

inline TrainResult train(const TrainConfig& config) { return finish(as_run(config)).result.jobs.front(); }

}  // namespace braid::testing
