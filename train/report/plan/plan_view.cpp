#include "train/report/plan/plan_view.h"

#include <algorithm>
#include <map>

namespace braid::scheduler {

PlanView view_of(Problem problem, Plan plan) {
  PlanView view;
  view.simulation = simulate(problem, plan);
  view.problem = std::move(problem);
  view.plan = std::move(plan);
  return view;
}

Phase phase_of(const StepGraph& graph, NodeId node) {
  Phase phase = Phase::forward;
  for (const Value& value : graph.outputs(graph.node(node))) {
    if (value.kind == ValueKind::parameter && value.previous != kNoValue) return Phase::update;
    if (value.kind == ValueKind::gradient) phase = Phase::backward;
  }
  return phase;
}

std::string_view name_of(Phase phase) {
  constexpr std::string_view kNames[] = {"forward", "backward", "update"};
  return kNames[static_cast<int>(phase)];
}

std::vector<NodeWait> waits_of(const Plan& plan) {
  const CommandOrder order(plan.commands, static_cast<std::int32_t>(plan.placements.size()));
  std::vector<NodeWait> waits;
  for (std::size_t s = 0; s < order.streams(); ++s) {
    for (const NodeId node : order.launched(s)) {
      for (const NodeId before : order.awaited(node)) waits.push_back({before, node});
    }
  }
  return waits;
}

std::vector<NodeId> critical_path(const Plan& plan, std::span<const Run> runs) {
  const CommandOrder order(plan.commands, static_cast<std::int32_t>(plan.placements.size()));
  std::vector<NodeId> cause(runs.size(), kNoNode);  // among the nodes that it follows, the last to finish
  NodeId last = kNoNode;
  for (const NodeId node : order.sequence()) {
    for (const NodeId before : order.followed(node)) {
      if (cause[node] == kNoNode || runs[before].finish > runs[cause[node]].finish) cause[node] = before;
    }
    if (last == kNoNode || runs[node].finish > runs[last].finish) last = node;
  }

  std::vector<NodeId> path;
  for (NodeId node = last; node != kNoNode; node = cause[node]) path.push_back(node);
  std::ranges::reverse(path);
  return path;
}

std::vector<ArenaUse> arena_uses(const PlanView& view, std::span<const Run> runs) {
  const StepGraph& graph = view.problem.graph;
  const Plan& plan = view.plan;
  const double end = runs.empty() ? 0 : std::ranges::max(runs, {}, &Run::finish).finish;

  std::vector<ArenaUse> uses(graph.value_count());
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (plan.offsets[id] < 0 || value.root != id) continue;
    const double begin = value.producer == kNoNode ? 0 : runs[value.producer].start;
    uses[id] = {.value = id,
                .node = value.producer,
                .offset = plan.offsets[id],
                .bytes = static_cast<std::int64_t>(value.bytes()),
                .begin = begin,
                .end = value.kept ? end : begin};
  }
  for (const NodeId id : graph.launched_nodes()) {
    const auto use = [&](const Value& value) {
      uses[value.root].end = std::max(uses[value.root].end, runs[id].finish);
    };
    for (const ValueId input : graph.inputs(id)) use(graph.value(input));
    for (const Value& output : graph.outputs(graph.node(id))) use(output);
  }
  for (const ArenaUse& use : uses) {
    if (use.value == kNoValue) continue;
    const ValueId old = graph.value(use.value).reuses;
    if (old != kNoValue && plan.offsets[old] == use.offset) uses[old].end = std::min(uses[old].end, use.begin);
  }
  std::erase_if(uses, [](const ArenaUse& use) { return use.value == kNoValue || use.bytes == 0; });

  for (std::size_t s = 0; s < plan.commands.streams.size(); ++s) {
    for (const auto& [kind, index] : plan.commands.streams[s]) {
      if (kind != Command::Kind::launch || view.cost(index).workspace_bytes == 0) continue;
      uses.push_back({.node = index,
                      .offset = plan.workspaces[s].offset,
                      .bytes = static_cast<std::int64_t>(view.cost(index).workspace_bytes),
                      .begin = runs[index].start,
                      .end = runs[index].finish});
    }
  }
  std::ranges::stable_sort(uses, {}, &ArenaUse::begin);
  return uses;
}

std::vector<BytesInUse> bytes_in_use(std::span<const ArenaUse> uses) {
  std::map<double, std::int64_t> changes;
  for (const ArenaUse& use : uses) {
    changes[use.begin] += use.bytes;
    changes[use.end] -= use.bytes;
  }
  std::vector<BytesInUse> in_use;
  std::int64_t bytes = 0;
  for (const auto& [time, change] : changes) in_use.push_back({time, bytes += change});
  return in_use;
}

std::int64_t peak_bytes(std::span<const BytesInUse> in_use) {
  return in_use.empty() ? 0 : std::ranges::max(in_use, {}, &BytesInUse::bytes).bytes;
}

}  // namespace braid::scheduler
