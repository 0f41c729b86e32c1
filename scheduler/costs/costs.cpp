#include "scheduler/costs/costs.h"

#include <algorithm>
#include <cmath>

namespace braid::scheduler {

void Costs::add(std::span<const Cost> implementations) {
  BRAID_CHECK(!implementations.empty(), Error, "[costs] expected at least one implementation of node ", node_count());
  costs_.insert(costs_.end(), implementations.begin(), implementations.end());
  begin_.push_back(static_cast<std::int32_t>(costs_.size()));
}

void Costs::set_duration(NodeId node, int implementation, double microseconds) {
  costs_[begin_[node] + implementation].duration = microseconds;
}

std::span<const Cost> Costs::of(NodeId node) const {
  return std::span(costs_).subspan(begin_[node], begin_[node + 1] - begin_[node]);
}

double Costs::fastest(NodeId node) const { return std::ranges::min(of(node), {}, &Cost::duration).duration; }

double Costs::least_work(NodeId node) const {
  const auto work = [](const Cost& cost) { return cost.width * cost.duration; };
  return work(std::ranges::min(of(node), {}, work));
}

namespace {

double roofline_microseconds(const Work& work, const DeviceInfo& device, int width, double flops_per_unit) {
  const double bandwidth = std::min(device.bytes_per_second, width * device.bytes_per_second_unit);
  const double compute = work.flops / (width * flops_per_unit);
  const double fixed = device.launch_seconds + (width > 1 ? device.fork_seconds : 0);
  return 1e6 * (fixed + std::max(compute, work.bytes / bandwidth));
}

/// Bytes that one thread block reads and writes by default: 256 threads, a few vectors each.
constexpr double kBlockBytes = 32 << 10;

double thread_blocks(const Work& work) {
  return work.blocks > 0 ? work.blocks : std::max(1.0, std::ceil(work.bytes / kBlockBytes));
}

/// Units on which the thread blocks of a node run: the hardware gives every unit one before any gets a second.
int spread_units(const Work& work, const DeviceInfo& device) {
  return static_cast<int>(std::clamp(thread_blocks(work), 1.0, static_cast<double>(device.capacity)));
}

/// The width of a node with this duration on this many units: its share of the device, counted in units. A block of a
/// library's matrix kernel fills a unit's registers and shared memory, so the share is that of the units. Blocks of
/// Braid's own kernels leave room for others, and hardly compute; their share is that of the block slots that they
/// hold, blocks / (units * blocks per unit), or of the memory's bandwidth that they draw while they run, whichever is
/// larger ("dominant share": Ghodsi et al., "Dominant resource fairness", 2011). Kernels that together ask for less
/// than the device has of both do not slow each other down, however few units they run on.
int occupied_units(const Work& work, const DeviceInfo& device, int units, double microseconds) {
  if (work.blocks > 0) return units;
  const double slots = thread_blocks(work) / device.blocks_per_unit;
  const double bandwidth = device.capacity * work.bytes / (1e-6 * microseconds * device.bytes_per_second);
  return static_cast<int>(std::clamp(std::ceil(std::max(slots, bandwidth)), 1.0, double(device.capacity)));
}

/// FLOP/s of one unit. Tensor cores take f16 and, from Ampere on, bf16, and tf32 at half the rate.
double compute_rate(DType dtype, const DeviceInfo& device, bool tf32) {
  const double matrix = device.matrix_flops_per_unit, later = device.matrix_f16_only ? 0 : matrix;
  if (dtype == DType::f16) return std::max(device.flops_per_unit, matrix);
  if (dtype == DType::bf16) return std::max(device.flops_per_unit, later);
  return std::max(device.flops_per_unit, dtype == DType::f32 && tf32 ? later / 2 : 0.0);
}

/// The one implementation of a node on a device that oversubscribes.
Cost occupying_cost(const Work& work, std::span<const ValueDesc> inputs, const DeviceInfo& device, bool tf32) {
  const int units = spread_units(work, device);
  const double rate = compute_rate(inputs.empty() ? DType::f32 : inputs[0].dtype, device, tf32);
  const double duration = roofline_microseconds(work, device, units, rate);
  return {.width = occupied_units(work, device, units, duration), .duration = duration};
}

}  // namespace

Costs analytic_costs(const StepGraph& graph, const DeviceInfo& device, std::span<const int> widths, bool tf32) {
  BRAID_CHECK(device.flops_per_unit > 0 && device.bytes_per_second > 0 && device.bytes_per_second_unit > 0, Error,
              "[costs] the compute rate and bandwidths of device '", device.name, "' must be positive");
  Costs costs;
  std::vector<Cost> implementations;
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    implementations.clear();
    const auto inputs = graph.input_descs(id);
    const Work work = graph.node(id).op->work(inputs, graph.output_descs(id));
    if (graph.node(id).is_view) {
      implementations.push_back({});
    } else if (device.oversubscribes) {
      implementations.push_back(occupying_cost(work, inputs, device, tf32));
    } else {
      for (const int width : widths) {
        if (width > device.max_width) break;
        implementations.push_back(
            {.width = width, .duration = roofline_microseconds(work, device, width, device.flops_per_unit)});
      }
    }
    costs.add(implementations);
  }
  return costs;
}

std::vector<double> bottom_levels(const Edges& edges, const Costs& costs) {
  std::vector<double> levels(costs.node_count());
  for (NodeId node = costs.node_count() - 1; node >= 0; --node) {  // recording order is topological
    double below = 0;
    for (const NodeId successor : edges.successors(node)) below = std::max(below, levels[successor]);
    levels[node] = costs.fastest(node) + below;
  }
  return levels;
}

std::vector<NodeId> longest_path(const StepGraph& graph, const Edges& edges, std::span<const double> levels) {
  NodeId node = kNoNode;
  for (NodeId other = 0; other < graph.node_count(); ++other) {
    if (!graph.node(other).is_view && (node == kNoNode || levels[other] > levels[node])) node = other;
  }
  std::vector<NodeId> path;
  while (node != kNoNode) {
    path.push_back(node);
    const auto next = std::ranges::max_element(edges.successors(node), {}, [&](NodeId n) { return levels[n]; });
    node = next == edges.successors(node).end() ? kNoNode : *next;
  }
  return path;
}

}  // namespace braid::scheduler
