#pragma once
// The transfer experiment of the PathNet paper (section 2.3): paths evolve on task A; the best path's modules are
// frozen and all others reinitialised; new paths evolve on task B. The control learns task B from scratch.

#include "train/config/pathnet_config.h"
#include "train/pathnet/evolution.h"
#include "train/run/log/progress.h"

namespace braid {

/// The result of evolution on one task.
struct TaskRun {
  bool learned = false;                      ///< whether a path reached the threshold
  int generations = 0;                       ///< up to the threshold or the limit
  double accuracy = 0;                       ///< accuracy of the best path, on the batches of its tournament
  models::Genotype path;                     ///< the best
  std::vector<models::Genotype> population;  ///< at the end
  std::int64_t steps = 0, plans = 0;         ///< training steps, and the number of them with a new structure
  double seconds = 0;
};

/// The result of one seed.
struct SeedRun {
  std::uint64_t seed = 0;
  TaskRun a;        ///< task A
  TaskRun b;        ///< task B, with A's path frozen
  TaskRun control;  ///< task B from scratch; population, batches and, except on A's path, weights start equal to b's
  /// If a path is always active: b, but with A's path frozen before it learned anything. The advantage of b over this
  /// run comes from learning task A; the rest comes from the additional modules.
  std::optional<TaskRun> untrained;
};

struct PathNetResult {
  std::vector<SeedRun> seeds;    ///< the finished ones
  int interrupted = 0;           ///< the signal that ended the run, for example SIGINT; 0: none
  std::filesystem::path folder;  ///< folder of the run
};

/// Runs one seed after another. In addition to config and metrics, the run folder gets the files below, rewritten after
/// each seed, and a checkpoint after each generation, unless the one before it is still being written. SIGINT (Ctrl-C),
/// SIGTERM and SIGHUP end the run after the current step; it keeps the finished seeds. `resumed` is the folder of an
/// earlier run of this config: the run continues there, from the newest checkpoint, as if it had never stopped. Throws
/// ConfigError or DataError before it writes anything; Error if training diverges, or if the run folder cannot be
/// written. Warns if only the drawing cannot be written.
PathNetResult run_pathnet(const PathNetConfig& config, Progress& progress, const std::filesystem::path& resumed = {});

inline constexpr const char* kPathNetGenotypes = "genotypes.json";
inline constexpr const char* kPathNetDrawing = "paths.svg";

}  // namespace braid
