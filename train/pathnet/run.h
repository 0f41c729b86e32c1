#pragma once
// The transfer experiment of the PathNet paper (section 2.3): paths evolve on task A; the best one's modules are frozen
// and all others drawn anew; new paths evolve on task B. The control learns task B from scratch.

#include "train/pathnet/config.h"
#include "train/pathnet/evolution.h"
#include "train/run/progress.h"

namespace braid {

/// What evolution on one task came to.
struct TaskRun {
  bool learned = false;                      ///< whether a path reached the threshold
  int generations = 0;                       ///< until then, or until the limit
  double accuracy = 0;                       ///< of the best path, on the batches of its tournament
  models::Genotype path;                     ///< the best
  std::vector<models::Genotype> population;  ///< at the end
  std::int64_t steps = 0, plans = 0;         ///< training steps, and how many of them were of a new structure
  double seconds = 0;
};

/// What one seed came to.
struct SeedRun {
  std::uint64_t seed = 0;
  TaskRun a;        ///< task A
  TaskRun b;        ///< task B, with A's path frozen
  TaskRun control;  ///< task B from scratch; initial population, batches and, but for A's path, initial weights are b's
  /// With an always active path: the same as b, but A's path was frozen before it learned anything. What b has over
  /// this is what task A taught; the rest comes from the additional modules.
  std::optional<TaskRun> untrained;
};

struct PathNetResult {
  std::vector<SeedRun> seeds;    ///< those that were finished
  int interrupted = 0;           ///< the signal that ended it, as SIGINT; 0: none
  std::filesystem::path folder;  ///< of the run
};

/// Runs seed after seed. Beside config and metrics, the run folder gets the files below, written anew after each seed.
/// SIGINT (Ctrl-C), SIGTERM and SIGHUP end the run after the current step; it keeps the seeds that were finished.
/// Throws ConfigError or DataError before anything is written; Error if training diverges, or if the run folder cannot
/// be written. Warns if only the drawing cannot.
PathNetResult run_pathnet(const PathNetConfig& config, Progress& progress);

inline constexpr const char* kPathNetReport = "report.json";
inline constexpr const char* kPathNetGenotypes = "genotypes.json";
inline constexpr const char* kPathNetDrawing = "paths.svg";

}  // namespace braid
