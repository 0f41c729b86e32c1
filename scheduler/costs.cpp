#include "scheduler/costs.h"

#include <algorithm>

namespace braid {

void Costs::add(std::span<const Choice> choices) {
  BRAID_CHECK(!choices.empty(), Error, "[costs] expected at least one choice for node ", node_count());
  choices_.insert(choices_.end(), choices.begin(), choices.end());
  begin_.push_back(static_cast<std::int32_t>(choices_.size()));
}

void Costs::set_workspace(NodeId node, int choice, std::size_t bytes) {
  choices_[begin_[node] + choice].workspace_bytes = bytes;
}

void Costs::set_duration(NodeId node, int choice, double microseconds) {
  choices_[begin_[node] + choice].duration = microseconds;
}

std::span<const Choice> Costs::choices(NodeId node) const {
  return std::span(choices_).subspan(begin_[node], begin_[node + 1] - begin_[node]);
}

double Costs::fastest(NodeId node) const { return std::ranges::min(choices(node), {}, &Choice::duration).duration; }

double Costs::least_work(NodeId node) const {
  const auto work = [](const Choice& choice) { return choice.width * choice.duration; };
  return work(std::ranges::min(choices(node), {}, work));
}

std::vector<int> candidate_widths(int fixed, int max_width) {
  if (fixed > 0) return {std::min(fixed, max_width)};
  std::vector<int> list;
  for (int width = 1; width < max_width; width *= 2) list.push_back(width);
  list.push_back(max_width);
  return list;
}

namespace {

double roofline_microseconds(const Work& work, const DeviceInfo& device, int width) {
  const double bandwidth = std::min(device.bytes_per_second, width * device.bytes_per_second_unit);
  const double compute = work.flops / (width * device.flops_per_unit);
  const double fixed = device.launch_seconds + (width > 1 ? device.fork_seconds : 0);
  return 1e6 * (fixed + std::max(compute, work.bytes / bandwidth));
}

}  // namespace

Costs analytic_costs(const StepGraph& graph, const DeviceInfo& device, std::span<const int> widths) {
  BRAID_CHECK(device.flops_per_unit > 0 && device.bytes_per_second > 0 && device.bytes_per_second_unit > 0, Error,
              "[costs] the compute rate and bandwidths of device '", device.name, "' must be positive");
  Costs costs;
  std::vector<Choice> choices;
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    choices.clear();
    if (graph.node(id).is_view) {
      choices.push_back({});
    } else {
      const Work work = graph.node(id).op->work(graph.input_descs(id), graph.output_descs(id));
      for (const int width : widths) {
        if (width > device.max_width) break;
        choices.push_back({.width = width, .duration = roofline_microseconds(work, device, width)});
      }
    }
    costs.add(choices);
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

LowerBound lower_bound(const Edges& edges, const Costs& costs, int capacity) {
  LowerBound bound;
  for (const double level : bottom_levels(edges, costs)) bound.depth = std::max(bound.depth, level);
  for (NodeId node = 0; node < costs.node_count(); ++node) bound.work += costs.least_work(node);
  bound.bound = std::max(bound.depth, bound.work / capacity);
  return bound;
}

}  // namespace braid
