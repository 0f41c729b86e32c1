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

struct Course;   // of a training: its attempts
struct Outcome;  // of one attempt

/// Thrown when SIGINT or SIGTERM ends the simulation.
struct Interrupted {
  int signal;
};

class SimulatedTraining {
 public:
  /// An empty path is the config of a small network. The first attempt has `ranks` ranks. Trains once on one
  /// rank, without failures. Throws ConfigError if the config is for something else than one model with
  /// parallel.virtual_ranks, Error if there is no simulation in this build, Interrupted. From then on, the process
  /// leaves SIGCHLD, SIGINT and SIGTERM to this object, of which there may be one.
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

  /// The words of `braid` that begin the training, and those that continue it.
  std::vector<std::string> train() const;
  std::vector<std::string> resume() const;
  std::filesystem::path runs() const { return folder_ / "runs"; }
  std::filesystem::path newest_run() const;
  std::vector<std::int64_t> checkpoints() const;
  /// The files of the last model and of the best one.
  std::string models() const;
  /// Measures the duration of a training in which nothing fails.
  void measure(Time latency);
  /// Supervises attempts as `braid launch` does, and checks what that does after each. Returns whether the training has
  /// ended.
  bool launch(Course& course, int ranks) const;
  Outcome run_attempt(Course& course, int ranks, const std::vector<std::string>& words) const;
  /// Checks that ranks ended as they may, for a fault that explains it, and that an error names what failed.
  void judge(const Outcome& outcome, const std::string& story) const;
  /// What an attempt that failed does to files: a crash takes what had not reached the disk, and in a third of all
  /// cases a bit of the newest of several checkpoints flips.
  void damage(const Outcome& outcome, Course& course) const;
  void cut_files(const Outcome& outcome, Generator& random) const;
  void undo_renames(const Outcome& outcome, Course& course) const;

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
