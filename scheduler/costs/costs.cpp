#include "scheduler/costs/costs.h"

#include <algorithm>
#include <cmath>

#include "core/device/block_needs.h"
#include "scheduler/costs/matrix_kernel.h"

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

/// Without tiles, a multiply-add loads its operands; an SM of Volta has half as many load units as f32 lanes, of Hopper
/// a quarter.
constexpr double kLoadShare = 0.25;

double thread_blocks(const Work& work) { return std::max(1.0, std::ceil(work.bytes / kBlockBytes)); }

/// The units that one of Braid's kernels takes from others while it runs for these microseconds. Its blocks leave room
/// on their SMs: its share is that of the blocks that the device holds at once, blocks / (units * resident blocks), of
/// the memory's bandwidth that they draw, or of the arithmetic, whichever is larger ("dominant share": Ghodsi et al.,
/// "Dominant resource fairness", 2011). Kernels that together ask for less than the device has of all three do not slow
/// each other down, however few units they run on.
double occupied_units(std::string_view op, const Work& work, const DeviceInfo& device, double microseconds) {
  const double slots = thread_blocks(work) / resident_blocks(device, block_needs(op));
  const double bandwidth = device.capacity * work.bytes / (1e-6 * microseconds * device.bytes_per_second);
  const double compute = work.flops / (1e-6 * microseconds * device.flops_per_unit * kLoadShare);
  return std::max({slots, bandwidth, compute});
}

/// FLOP/s of one unit. Tensor cores take f16 and, from Ampere on, bf16, and tf32 at half the rate.
double compute_rate(DType dtype, const DeviceInfo& device, bool tf32) {
  const double matrix = device.matrix_flops_per_unit, later = device.matrix_f16_only ? 0 : matrix;
  if (dtype == DType::f16) return std::max(device.flops_per_unit, matrix);
  if (dtype == DType::bf16) return std::max(device.flops_per_unit, later);
  return std::max(device.flops_per_unit, dtype == DType::f32 && tf32 ? later / 2 : 0.0);
}

/// The one implementation of a node on a device that oversubscribes: its duration, and the units that others cannot use
/// in the meantime, averaged over it.
Cost occupying_cost(std::string_view op, const Work& work, std::span<const ValueDesc> inputs, const DeviceInfo& device,
                    bool tf32) {
  double microseconds = 0, units = 0;
  if (is_tiled(work)) {
    const DType dtype = inputs.empty() ? DType::f32 : inputs[0].dtype;
    const MatrixKernel kernel =
        fastest_matrix_kernel(work, device, compute_rate(dtype, device, tf32), static_cast<double>(size_of(dtype)));
    microseconds = 1e6 * (device.launch_seconds + kernel.seconds);
    units = kernel.units * 1e6 * kernel.seconds / microseconds;
  } else {
    // The hardware gives every unit one block before any gets a second.
    const double spread = std::min(thread_blocks(work), static_cast<double>(device.capacity));
    microseconds = roofline_microseconds(work, device, static_cast<int>(spread), device.flops_per_unit * kLoadShare);
    units = occupied_units(op, work, device, microseconds);
  }
  const double width = std::clamp(std::ceil(units), 1.0, static_cast<double>(device.capacity));
  return {.width = static_cast<int>(width), .duration = microseconds};
}

/// The one implementation of a node that communicates. A GPU copies to and from buckets at the whole device's
/// bandwidth, and the library adds while it sends; on a CPU the core that sends does both.
Cost communication_cost(Work work, const Communication& communication, const DeviceInfo& device) {
  if (device.oversubscribes) work.flops = 0;
  const int units = device.oversubscribes ? device.capacity : 1;
  const double own = roofline_microseconds(work, device, units, device.flops_per_unit);
  const Link& link = device.link_among(communication.group);
  return {
      .width = std::min(link.units, device.capacity), .duration = own + 1e6 * seconds(communication, link), .link = 0};
}

}  // namespace

Costs analytic_costs(const StepGraph& graph, const DeviceInfo& device, std::span<const int> widths, bool tf32) {
  BRAID_CHECK(device.flops_per_unit > 0 && device.bytes_per_second > 0 && device.bytes_per_second_unit > 0, Error,
              "[costs] the compute rate and bandwidths of device '", device.name, "' must be positive");
  Costs costs;
  std::vector<Cost> implementations;
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    implementations.clear();
    const auto inputs = graph.input_descs(id), outputs = graph.output_descs(id);
    const Work work = graph.node(id).op->work(inputs, outputs);
    const Communication communication = graph.node(id).op->communication(inputs, outputs);
    if (graph.node(id).is_view) {
      implementations.push_back({});
    } else if (!communication.empty()) {
      implementations.push_back(communication_cost(work, communication, device));
    } else if (device.oversubscribes) {
      implementations.push_back(occupying_cost(graph.node(id).op->name(), work, inputs, device, tf32));
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
  const auto highest = [&](std::span<const NodeId> nodes) {
    const auto found = std::ranges::max_element(nodes, {}, [&](NodeId node) { return levels[node]; });
    return found == nodes.end() ? kNoNode : *found;
  };
  std::vector<NodeId> path;
  for (NodeId node = highest(graph.launched_nodes()); node != kNoNode; node = highest(edges.successors(node))) {
    path.push_back(node);
  }
  return path;
}

}  // namespace braid::scheduler
