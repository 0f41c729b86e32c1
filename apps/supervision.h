#pragma once
// Starts the ranks of a training, and again from its newest checkpoint if one of them dies: those of mpirun for
// `braid launch`, and simulated ones for `braid simulate`.

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace braid::apps {

struct Supervision {
  int ranks = 1, restarts = 0;
  int min_ranks = 0;                 ///< 0: all
  std::vector<std::string> command;  ///< train and its arguments
};

/// Runs ranks with these words of `braid`. Returns their exit status; `stopped` becomes the signal that asked them to
/// stop, if there was one.
using RunRanks = std::function<int(int ranks, const std::vector<std::string>& words, int& stopped)>;

/// Returns the exit status of the last ranks. Says why others are started.
int supervise(const Supervision& training, std::ostream& out, const RunRanks& run);

}  // namespace braid::apps
