#pragma once
// What the scheduler knows about a node: its implementations, each with a width, a duration and a workspace. Costs come
// from the analytic model below, from a profile or from a test; policies cannot tell them apart.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/graph/step_graph.h"

namespace braid::scheduler {

inline constexpr int kNoLink = -1;

/// An implementation of a node: how much of the device it occupies, for how long when it runs alone, and its scratch
/// memory.
struct Cost {
  int width = 1;        ///< cores or SMs, at least 1 (0 on a link) and at most the capacity
  double duration = 0;  ///< microseconds
  std::size_t workspace_bytes = 0;
  std::string algorithm = {};  ///< distinguishes implementations of one width; empty if there is only one
  int link = kNoLink;          ///< the link that it has to itself, the same for all implementations of a node
  friend bool operator==(const Cost&, const Cost&) = default;
};

/// The implementations of every node, in ascending width; at least one each.
class Costs {
 public:
  /// Appends the implementations of the next node, in node order.
  void add(std::span<const Cost> implementations);
  void set_duration(NodeId node, int implementation, double microseconds);

  std::int32_t node_count() const { return static_cast<std::int32_t>(begin_.size()) - 1; }
  std::span<const Cost> of(NodeId node) const;
  const Cost& of(NodeId node, int implementation) const { return of(node)[static_cast<std::size_t>(implementation)]; }
  int link(NodeId node) const { return of(node).front().link; }
  /// Shortest duration over the implementations, microseconds: the length of a node on a path.
  double fastest(NodeId node) const;
  /// Smallest width × duration over the implementations: its share of the work W.
  double least_work(NodeId node) const;

 private:
  std::vector<std::int32_t> begin_{0};
  std::vector<Cost> costs_;
};

/// Roofline model: launch + max(flops / compute rate, bytes / bandwidth) at every width in `widths` (ascending, up to
/// device.max_width). On a device that oversubscribes (a GPU) a node has one width whatever `widths` says: the share of
/// the device that its thread blocks take from others. Its matrix products run in tiles (matrix_kernel.h), in f16, bf16
/// and, if allowed, tf32 at the matrix rate. A node that communicates occupies link 0; its local memory traffic comes
/// first, then its calls take the time that seconds() predicts. Views cost nothing. Workspaces are left at 0.
Costs analytic_costs(const StepGraph& graph, const DeviceInfo& device, std::span<const int> widths, bool tf32 = false);

/// Bottom level of every node: the longest path of fastest durations from its start to the end, microseconds.
std::vector<double> bottom_levels(const Edges& edges, const Costs& costs);
/// The critical path of a graph with these bottom levels, first node to last: the longest chain of dependent nodes,
/// each at its fastest.
std::vector<NodeId> longest_path(const StepGraph& graph, const Edges& edges, std::span<const double> levels);

}  // namespace braid::scheduler
