#include "scheduler/memory/lean_schedule.h"

#include <algorithm>
#include <iterator>

#include "core/graph/graph_copy.h"

namespace braid::scheduler {
namespace {

/// The graph with its nodes in another order. Views come right after what they look at, before it is overwritten.
RewrittenGraph reordered(const StepGraph& graph, std::span<const NodeId> order) {
  GraphCopy copy(graph);
  std::vector<std::vector<NodeId>> views(graph.value_count());  // per root
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    if (graph.node(node).is_view) views[graph.value(graph.output(node, 0)).root].push_back(node);
  }
  const auto add_views = [&](ValueId root) {
    for (const NodeId view : views[root]) {
      const auto looks_at = [&](ValueId input) { return graph.value(input).root == root; };
      copy.add_node(view, {copy.value(*std::ranges::find_if(graph.inputs(view), looks_at))});
    }
  };
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (graph.value(id).producer != kNoNode) continue;
    copy.add_source(id);
    add_views(id);
  }
  for (const NodeId node : order) {
    copy.add_node(node);
    for (int i = 0; i < graph.node(node).output_count; ++i) add_views(graph.output(node, i));
  }
  return copy.finish();
}

/// Adds the window's edges to the graph's. Each node follows the `window` nodes that just left its window; all
/// before those have already finished.
Edges with_window_edges(const Problem& problem, int window) {
  const std::vector<NodeId> order = problem.graph.launched_nodes();
  std::vector<std::vector<NodeId>> predecessors(problem.graph.node_count());
  for (std::int64_t place = 0; place < std::ssize(order); ++place) {
    const std::int64_t end = std::max<std::int64_t>(0, place + 1 - window);
    const std::int64_t begin = std::max<std::int64_t>(0, end - window);
    std::ranges::set_union(problem.edges.predecessors(order[place]), std::span(order).subspan(begin, end - begin),
                           std::back_inserter(predecessors[order[place]]));
  }
  return Edges::from_predecessors(predecessors);
}

}  // namespace

ReorderedStep::ReorderedStep(const Problem& problem, std::span<const NodeId> order) {
  RewrittenGraph rewritten = reordered(problem.graph, order);
  reordered_ = rewritten.first_nodes();
  original_ = std::move(rewritten.nodes);
  problem_ = with_graph(problem, std::move(rewritten.graph), original_);
  // The problem may require more order than its graph.
  std::vector<std::vector<NodeId>> predecessors(original_.size());
  for (const NodeId node : order) {
    auto& before = predecessors[reordered_[node]];
    for (const NodeId predecessor : problem.edges.predecessors(node)) before.push_back(reordered_[predecessor]);
    std::ranges::sort(before);
  }
  problem_.edges = Edges::from_predecessors(predecessors);
}

Schedule ReorderedStep::restore(const Schedule& schedule) const {
  Schedule restored;
  for (const NodeId name : reordered_) restored.placements.push_back(schedule.placements[name]);
  for (const NodeId node : schedule.order) restored.order.push_back(original_[node]);
  for (const auto& [before, after] : schedule.resource_edges) {
    restored.resource_edges.emplace_back(original_[before], original_[after]);
  }
  restored.makespan = schedule.makespan;
  return restored;
}

Schedule schedule_within_window(const Problem& problem, Policy policy, int window) {
  BRAID_CHECK(window >= 1, PlanError, "[window] expected a window of at least 1 node, got ", window);
  Schedule schedule = policy(with_edges(problem, with_window_edges(problem, window)));
  if (!problem.oversubscribes) add_capacity_edges(problem, schedule);  // the policy assumed the window
  return schedule;
}

/// Adds, for every node and other stream, an edge from the last node there that must have finished, unless an earlier
/// node of its stream has it already.
void add_window_edges(const Problem& problem, int window, Schedule& schedule) {
  const auto streams = static_cast<std::size_t>(problem.all_streams());
  std::vector<std::int32_t> place(schedule.placements.size(), -1);  // in the schedule
  for (std::size_t i = 0; i < schedule.order.size(); ++i) place[schedule.order[i]] = static_cast<std::int32_t>(i);
  const auto later = [&](NodeId a, NodeId b) { return b == kNoNode || (a != kNoNode && place[a] > place[b]); };

  const std::vector<NodeId> order = problem.graph.launched_nodes();
  std::vector<NodeId> latest(streams, kNoNode);  // per stream: the last node outside the window
  std::vector<NodeId> required(schedule.placements.size() * streams, kNoNode);
  for (std::size_t i = static_cast<std::size_t>(window); i < order.size(); ++i) {
    const NodeId over = order[i - static_cast<std::size_t>(window)];
    NodeId& last = latest[schedule.placements[over].stream];
    if (later(over, last)) last = over;
    std::ranges::copy(latest, required.begin() + static_cast<std::ptrdiff_t>(order[i] * streams));
  }
  std::vector<NodeId> known(streams * streams, kNoNode);  // stream × stream: implied by the edges so far
  for (const NodeId node : schedule.order) {
    const auto stream = static_cast<std::size_t>(schedule.placements[node].stream);
    for (std::size_t s = 0; s < streams; ++s) {
      const NodeId before = required[node * streams + s];
      NodeId& so_far = known[stream * streams + s];
      if (s == stream || before == kNoNode || !later(before, so_far)) continue;
      schedule.resource_edges.emplace_back(so_far = before, node);
    }
  }
}

Schedule lean_schedule(const Problem& problem, Policy policy, int window) {
  const ReorderedStep lean(problem, serial(problem).order);
  return lean.restore(schedule_within_window(lean.problem(problem.streams), policy, window));
}

}  // namespace braid::scheduler
