#pragma once
// Measures interference: how much concurrent nodes slow each other down. Only pairs that plans of the step overlap.

#include <functional>
#include <optional>
#include <span>

#include "runtime/session.h"
#include "scheduler/costs/profile.h"

namespace braid {

/// Two nodes to measure together, each with one implementation.
struct NodePair {
  NodeId first = kNoNode, second = kNoNode;
  int first_implementation = 0, second_implementation = 0;
  double overlap = 0;  ///< microseconds in which they, or others like them, run at once
};

/// The pairs that simulated runs of critical_path on this number of streams overlap, pairs of equal kinds once, the
/// longest overlap first.
std::vector<NodePair> overlapping_pairs(const StepGraph& graph, const scheduler::Costs& costs, const DeviceInfo& device,
                                        std::span<const int> streams, bool tf32);

/// Runs two kernels side by side, repeatedly, on two streams.
class PairTimer {
 public:
  explicit PairTimer(Backend& backend) : backend_(backend), streams_(backend.make_streams({.count = 2})) {}

  struct Factor {
    double factor = 1;  ///< time alongside the other over time alone; medians
    int samples = 0;
  };
  /// How many times as long as alone each takes. Empty if one kernel is so long that the other cannot be repeated often
  /// enough to run alongside it all the time. The two nodes must differ. Throws OutOfMemory.
  struct Factors {
    std::optional<Factor> first, second;
  };
  Factors time(const StepGraph& graph, NodeId first, Kernel& first_kernel, NodeId second, Kernel& second_kernel);
  /// Microseconds from the end of a node to the start of another that waits for it in the other stream; the median.
  /// Throws OutOfMemory.
  double wait_microseconds(const StepGraph& graph, NodeId first, Kernel& first_kernel, NodeId second,
                           Kernel& second_kernel);
  /// The clock of the last measurement: RunTimes::clock.
  std::string_view clock() const { return clock_; }

 private:
  std::vector<LaunchTime> measure(const Program& program);
  void bind(const StepGraph& graph, NodeId first, Kernel& first_kernel, NodeId second, Kernel& second_kernel);

  Backend& backend_;
  std::unique_ptr<StreamGroup> streams_;
  Buffer scratch_;
  std::string_view clock_;
};

struct PairProgress {
  std::size_t done = 0, total = 0;
};

/// Measures up to `most` pairs of the step that the session has recorded and that has not run, planned with the
/// profile's durations, and the time of a wait. They replace the profile's pairs. Pairs that do not fit into memory are
/// left out.
void profile_pairs(Session& session, std::span<const int> streams, std::size_t most,
                   const std::function<void(PairProgress)>& on_progress, scheduler::Profile& profile);

}  // namespace braid
