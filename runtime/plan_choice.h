#pragma once
// Which of several plans to keep, by the times of their runs. No clock, no device: the numbers that decide are those
// that the report prints.

#include <span>
#include <string>
#include <vector>

#include "core/median.h"

namespace braid {

/// Turns that each plan gets before one is kept. The first turn warms caches and libraries and does not count.
inline constexpr std::size_t kMeasuredTurns = 7;
/// Runs of a turn. The first, which finds caches and threads as another plan has left them, does not count either.
inline constexpr std::size_t kRunsPerTurn = 3;
/// A plan is kept in place of the serial one only if it saves so much of its time: what is less may be noise.
inline constexpr double kLeastGain = 0.02;

/// All runs of one plan so far, turn after turn.
struct PlanRuns {
  std::string name;                  ///< as "critical_path on 2 streams"
  std::vector<double> seconds = {};  ///< uncounted runs included
};

/// How the other plans compare with the first one, which is the serial one unless memory is too short for it.
struct PlanChoice {
  struct Rival {
    std::string name;
    /// Its time over that of the first plan in the same turn, rounded to thousandths. A ratio within a turn is as fair
    /// to both on a machine whose speed drifts.
    Quartiles relative;
  };
  std::string first;
  double seconds = 0;     ///< of a run of the first plan: median over the turns
  std::size_t turns = 0;  ///< that count
  std::vector<Rival> rivals;

  /// The plan to keep: 0 for the first one, i + 1 for rivals[i].
  std::size_t kept() const;
  /// As "serial: 27.8 ms; relative to it, …; kept serial, as no other plan saves 2 % of its time".
  std::string report() const;
};

/// Compares plans that have had kMeasuredTurns turns each. Throws Error if they have not.
PlanChoice compare(std::span<const PlanRuns> plans);

}  // namespace braid
