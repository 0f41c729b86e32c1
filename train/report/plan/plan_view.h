#pragma once
// Everything needed to show a plan: train/report/plan/chrome_trace.h and train/report/plan/plan_page.h draw it,
// train/report/plan/explain.h explains the decisions.

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/check/simulator.h"
#include "train/report/plan/scaling.h"

namespace braid::scheduler {

/// When a node runs.
using Run = Simulation::Run;

/// The losses of a model's training, to show with a step of it.
struct LossCurve {
  std::vector<double> steps;                         ///< training loss of every step
  std::vector<std::pair<std::int64_t, double>> val;  ///< (steps so far, loss on the validation set)
};

/// Consecutive layers, in the order of the forward pass, that ranks divide alike, or that are a stage of a pipeline.
struct LayerGroup {
  std::vector<std::string> layers;
  /// The numbers of parts along n (samples), h (height), w (width) and c (channels), in the order of the axes of the
  /// mesh; '_' for an axis that does not divide them.
  std::vector<std::pair<char, std::int64_t>> parts = {};
  double computing = 0;  ///< of a stage: microseconds
};

/// How the layers of a step are divided.
struct LayerDivision {
  int ranks = 1;
  bool has_stages = false;
  std::vector<LayerGroup> groups;  ///< empty: along samples alone
};

struct PlanView {
  std::string title;   ///< as "resnet20, images [64,28,28,1]"
  std::string device;  ///< as "NVIDIA H200"
  Problem problem;
  std::vector<std::string> layers;  ///< per node: the layer that it belongs to, or nothing; empty if none are known
  Plan plan;
  Simulation simulation;
  std::vector<Run> measured;      ///< per node, as it really ran; empty if it did not
  std::string clock;              ///< clock of the measured times: RunTimes::clock
  std::vector<std::string> jobs;  ///< names of the models that train together in the step; empty if unknown
  std::vector<int> owners;        ///< per node: its job; empty if there are no jobs
  std::vector<LossCurve> losses;  ///< per job; empty if nothing was trained
  Scaling scaling;                ///< scaling of the step over numbers of ranks
  LayerDivision division;         ///< over the ranks of the plan

  std::string_view layer(NodeId node) const { return layers.empty() ? std::string_view() : layers[index(node)]; }
  int owner(NodeId node) const { return owners.empty() ? 0 : owners[index(node)]; }
  const Cost& cost(NodeId node) const { return problem.costs.of(node, plan.placements[index(node)].implementation); }

 private:
  static std::size_t index(NodeId node) { return static_cast<std::size_t>(node); }
};

/// The view of a plan of this problem, with a simulated run. Title, device, layers and real times are the caller's.
PlanView view_of(Problem problem, Plan plan);

/// Which part of a training step a node belongs to: an update makes a parameter's next version, what belongs to the
/// backward pass makes gradients.
enum class Phase { forward, backward, update };
Phase phase_of(const StepGraph& graph, NodeId node);
std::string_view name_of(Phase phase);

/// One node that waits for another of a different stream.
struct NodeWait {
  NodeId before, after;
  friend auto operator<=>(const NodeWait&, const NodeWait&) = default;
};
/// The waits of a plan, stream by stream.
std::vector<NodeWait> waits_of(const Plan& plan);

/// The nodes that determine how long a run took, first to last: each had to wait for the one before it, in its own
/// stream or by an event.
std::vector<NodeId> critical_path(const Plan& plan, std::span<const Run> runs);

/// Bytes of the arena, and for how long they are in use: those of a value from its first write to its last use, or
/// those of a node's workspace.
struct ArenaUse {
  ValueId value = kNoValue;  ///< kNoValue: a workspace
  NodeId node = kNoNode;     ///< writes the value (kNoNode: the host), or uses the workspace
  std::int64_t offset = 0, bytes = 0;
  double begin = 0, end = 0;  ///< microseconds
};
/// The uses, sorted by begin. A value that is written in place owns the bytes from the start of its producer on.
std::vector<ArenaUse> arena_uses(const PlanView& view, std::span<const Run> runs);

/// Bytes in use from a time on, until the next entry.
struct BytesInUse {
  double time;
  std::int64_t bytes;
};
std::vector<BytesInUse> bytes_in_use(std::span<const ArenaUse> uses);
/// No arena can be smaller for this run.
std::int64_t peak_bytes(std::span<const BytesInUse> in_use);

}  // namespace braid::scheduler
