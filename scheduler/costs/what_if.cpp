#include "scheduler/costs/what_if.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace braid::scheduler {
namespace {

/// Microseconds of a node of this width that do not depend on what it computes.
double launch_microseconds(const DeviceInfo& device, int width) {
  return 1e6 * (device.launch_seconds + (width > 1 ? device.fork_seconds : 0));
}

DeviceInfo changed_device(DeviceInfo device, const WhatIf& change) {
  const int units = change.units > 0 ? change.units : device.capacity;
  if (!device.oversubscribes) {
    device.max_width = device.max_width == device.capacity ? units : std::min(device.max_width, units);
  }
  device.capacity = units;
  device.launch_seconds *= change.launch_scale;
  device.fork_seconds *= change.launch_scale;
  device.bytes_per_second *= change.bandwidth_scale;
  return device;
}

/// The analytic model, for single durations.
class Model {
 public:
  Model(const StepGraph& graph, DeviceInfo device, const std::vector<int>& widths, bool tf32)
      : device_(std::move(device)), widths_(widths) {
    if (!device_.oversubscribes) device_.max_width = widths_.back();
    costs_ = analytic_costs(graph, device_, widths_, tf32);
  }

  /// Microseconds of computing; a device that oversubscribes has one width for a node, whatever `width` is.
  double work(NodeId node, int width) const {
    const Cost& cost = costs_.of(node, index(node, width));
    return std::max(0.0, cost.duration - launch_microseconds(device_, cost.width));
  }
  int width(NodeId node) const { return costs_.of(node, 0).width; }

 private:
  int index(NodeId node, int width) const {
    if (costs_.of(node).size() == 1) return 0;
    return static_cast<int>(std::ranges::lower_bound(widths_, width) - widths_.begin());
  }

  DeviceInfo device_;
  std::vector<int> widths_;
  Costs costs_;
};

class Changer {
 public:
  Changer(const StepGraph& graph, const Costs& costs, const DeviceInfo& device, const WhatIf& change, bool tf32)
      : graph_(graph),
        costs_(costs),
        device_(device),
        launch_scale_(change.launch_scale),
        changed_(changed_device(device, change)),
        widths_(all_widths()),
        before_(graph, device_, widths_, tf32),
        after_(graph, changed_, widths_, tf32) {}

  Scenario run() {
    Scenario scenario{.device = changed_, .costs = {}};
    std::vector<Cost> implementations;
    for (NodeId node = 0; node < graph_.node_count(); ++node) {
      implementations.assign(costs_.of(node).begin(), costs_.of(node).end());
      if (!graph_.node(node).is_view) change(node, implementations);
      scenario.costs.add(implementations);
    }
    return scenario;
  }

 private:
  /// The widths of the costs, and those that more units would add.
  std::vector<int> all_widths() const {
    std::set<int> widths = {changed_.capacity};
    for (NodeId node = 0; node < costs_.node_count(); ++node) {
      for (const Cost& cost : costs_.of(node)) {
        if (cost.link == kNoLink) widths.insert(cost.width);
      }
    }
    for (int width = device_.max_width; width < changed_.max_width; width *= 2) widths.insert(width);
    return {widths.begin(), widths.end()};
  }

  void change(NodeId node, std::vector<Cost>& implementations) const {
    if (costs_.link(node) != kNoLink) return;  // its time depends on the link
    const Cost widest = implementations.back();
    if (device_.oversubscribes) {
      for (Cost& cost : implementations) {
        const double wider = static_cast<double>(after_.width(node)) / before_.width(node);
        cost =
            at_width(node, cost, std::clamp(static_cast<int>(std::lround(wider * cost.width)), 1, changed_.capacity));
      }
      return;
    }
    const Cost narrowest = implementations.front();
    std::erase_if(implementations, [&](const Cost& cost) { return cost.width > changed_.capacity; });
    for (Cost& cost : implementations) cost = at_width(node, cost, cost.width);
    if (implementations.empty()) implementations.push_back(at_width(node, narrowest, changed_.capacity));
    const bool free_to_choose = costs_.of(node).size() > 1 || device_.max_width == 1;
    if (widest.width != device_.max_width || !free_to_choose) return;
    for (const int width : widths_) {
      if (width > widest.width && width <= changed_.max_width) implementations.push_back(at_width(node, widest, width));
    }
  }

  /// The cost of an implementation on this many units of the changed device.
  Cost at_width(NodeId node, const Cost& cost, int width) const {
    const double launch = std::min(cost.duration, launch_microseconds(device_, cost.width));
    const double extra_fork = launch_microseconds(device_, width) - launch_microseconds(device_, cost.width);
    const double before = before_.work(node, cost.width), after = after_.work(node, width);
    Cost result = cost;
    result.width = width;
    result.duration = (cost.duration - launch) * (before > 0 ? after / before : 1) +
                      std::max(0.0, launch + extra_fork) * launch_scale_;
    return result;
  }

  const StepGraph& graph_;
  const Costs& costs_;
  const DeviceInfo& device_;
  const double launch_scale_;
  const DeviceInfo changed_;
  const std::vector<int> widths_;
  const Model before_, after_;
};

}  // namespace

Scenario what_if(const StepGraph& graph, const Costs& costs, const DeviceInfo& device, const WhatIf& change,
                 bool tf32) {
  constexpr int kMostUnits = 1 << 20;
  BRAID_CHECK(change.units >= 0 && change.units <= kMostUnits, Error, "[what if] expected 1 to ", kMostUnits,
              " units, got ", change.units);
  BRAID_CHECK(std::isfinite(change.launch_scale) && change.launch_scale >= 0, Error,
              "[what if] expected a launch scale of at least 0, got ", change.launch_scale);
  BRAID_CHECK(std::isfinite(change.bandwidth_scale) && change.bandwidth_scale > 0, Error,
              "[what if] expected a bandwidth scale above 0, got ", change.bandwidth_scale);
  BRAID_CHECK(costs.node_count() == graph.node_count(), Error, "[what if] expected costs of ", graph.node_count(),
              " nodes, got ", costs.node_count());
  return Changer(graph, costs, device, change, tf32).run();
}

}  // namespace braid::scheduler
