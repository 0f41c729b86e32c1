#pragma once
// Which of several plans a step runs. It gets times from its caller and uses neither clock nor device. Plans are
// measured in turns; one that is clearly slower than the fastest is dropped early. Afterwards the kept plan is watched,
// and the plans are compared again when its time changes, and at growing intervals in any case.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace braid {

/// Turns of each plan until one is kept. The first turn warms caches and libraries and does not count.
inline constexpr std::size_t kMostTurns = 7;
/// Runs of a turn. The first, which finds caches and threads in the state that another plan left, does not count. If it
/// takes kLongRun seconds, that effect is negligible, and the run is the whole turn; the very first one, which may
/// touch memory for the first time, is followed by a second.
inline constexpr std::size_t kRunsPerTurn = 3;
inline constexpr double kLongRun = 0.2;
/// A plan replaces another only if it saves this part of its time: less may be noise.
inline constexpr double kLeastGain = 0.02;
/// Seconds that a comparison may lose against running the fastest plan all the time. It ends before a round would lose
/// more.
inline constexpr double kMostLoss = 5;
/// The same as a share of a training whose length is known. If that allows less than a turn for each plan, the first
/// plan is kept without a comparison.
inline constexpr double kMostLossShare = 0.02;
/// Part of the time that comparing again may lose.
inline constexpr double kLossShare = 0.05;
/// Seconds from one comparison to the next.
inline constexpr double kShortestWait = 5, kLongestWait = 300;
/// The time of a step has changed if the median of this many steps has changed by this factor.
inline constexpr std::size_t kWatchedSteps = 16;
inline constexpr double kChange = 1.25;

class PlanChoice {
 public:
  struct Plan {
    std::string name;
    double least_gain = kLeastGain;  ///< it must save this part of the time of the plan that it replaces
    std::vector<double> turns = {};  ///< seconds of a run, turn by turn
    bool dropped = false;
  };

  /// One or more plans. The first is the one to beat; when plans are compared again, the kept one is. `expected_runs`
  /// is the length of the training in runs; 0 if unknown.
  explicit PlanChoice(std::vector<Plan> plans, std::int64_t expected_runs = 0);

  /// Whether plans are being compared: then the run of next() is timed on its own, for add_run.
  bool comparing() const { return !running_.empty(); }
  /// The plan to run next: while comparing, the one whose turn it is, else the one that is kept.
  std::size_t next() const;
  /// Whether no turn of next() has ended yet.
  bool in_first_turn() const { return comparing() && plans_[next()].turns.empty(); }
  /// The run of next() took this long, with nothing else running. Throws Error unless comparing.
  void add_run(double seconds);
  /// Seconds from the start of a run of the kept plan to the start of the next one. They contain what the host does
  /// between steps, which changes little, and may contain pauses, which the median ignores. Allocates nothing unless it
  /// starts a comparison.
  void add_interval(double seconds);
  /// Drops a plan that cannot or need not run: memory is short, or it equals another. Turns start over.
  void drop(std::size_t plan);
  bool dropped(std::size_t plan) const { return plans_[plan].dropped; }
  /// Plans that have not been dropped. If there are none, only this may be called.
  std::size_t left() const;

  /// The outcome of the last comparison and what was kept, such as "serial: 27.8 ms; relative to it, …; kept serial, as
  /// no other saves enough". Empty if nothing was compared.
  const std::string& report() const { return report_; }
  /// The same in brief: "serial kept, 54.7 ms/step (2 streams +10 %, one core -5.0 % of the 10 % needed)".
  const std::string& summary() const { return summary_; }

 private:
  /// Whether there is a choice, and the training long enough for a comparison.
  bool worth_comparing() const;
  void start();
  void end_round();
  void keep();
  std::size_t fastest() const;
  /// Seconds that the comparison has taken beyond those of its fastest plan.
  double lost() const;

  std::vector<Plan> plans_;
  double most_lost_runs_;  // infinite if the length of the training is unknown
  std::size_t kept_ = 0;
  std::string report_, summary_;

  // State of the comparison.
  std::vector<std::size_t> running_;  // plans not dropped, the one to beat first; empty if none is compared
  std::vector<double> runs_;          // seconds of this turn's runs
  double compared_seconds_ = 0;       // seconds of all compared runs
  std::size_t compared_runs_ = 0;
  std::string why_;  // why plans are compared again, for the report

  // State of watching the kept plan.
  std::array<double, kWatchedSteps> intervals_{};  // the last ones
  double usual_interval_ = 0;                      // the first median; 0 until it is known
  std::size_t watched_steps_ = 0;
  double watched_seconds_ = 0;
  double wait_ = 0, wait_if_changed_ = 0;  // seconds until plans are compared again
};

}  // namespace braid
