#pragma once
// Trains in simulated clusters in which something fails, continues from what is left, and compares the weights with
// those of an undisturbed training.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/simulation/world.h"
#include "core/base/random.h"

namespace braid::simulation {

/// What happened in a cluster.
struct Outcome;

/// Thrown when SIGINT or SIGTERM ends the simulation.
struct Interrupted {
  int signal;
};

class SimulatedTraining {
 public:
  /// An empty path is the config of a small network. The first attempt has `ranks` ranks. Trains once on one
  /// rank, without failures. Throws ConfigError if the config is for something else than one model with
  /// parallel.shards, Error if there is no simulation in this build, Interrupted. From then on, the process leaves
  /// SIGCHLD, SIGINT and SIGTERM to this object, of which there may be one.
  SimulatedTraining(std::string config, std::vector<std::string> overrides, int ranks);
  ~SimulatedTraining();
  SimulatedTraining(const SimulatedTraining&) = delete;
  SimulatedTraining& operator=(const SimulatedTraining&) = delete;

  /// Returns what happened. Throws Error, with what happened and what the ranks printed, unless the training ends with
  /// the right weights, and Interrupted.
  std::string run(std::uint64_t seed);

 private:
  /// Makes the folder, which the destructor removes, also if the rest of the construction fails.
  explicit SimulatedTraining(int ranks);

  std::vector<std::string> train() const;
  std::filesystem::path runs() const { return folder_ / "runs"; }
  std::filesystem::path newest_run() const;
  std::vector<std::int64_t> checkpoints() const;
  /// The duration of a training in which nothing fails.
  Time duration(Time latency);
  /// Checks that ranks ended as they may, for a fault that explains it, and that an error names what failed.
  void judge(const Outcome& outcome, const std::string& story) const;
  /// After a crash, takes the bytes from files that had not reached the disk. Flips a bit of the newest of several
  /// checkpoints in a third of all cases.
  void damage(const Outcome& outcome, Generator& random, std::string& story) const;

  std::string config_;
  std::vector<std::string> overrides_;
  const int ranks_;
  std::filesystem::path folder_;
  std::string name_, weights_;
  std::int64_t shards_ = 1;
  Time timeout_ = 0;
  std::map<Time, Time> durations_;  // per latency
};

}  // namespace braid::simulation
