#include "runtime/trace.h"

namespace braid {

std::vector<std::string> layers_of(const Tape& tape) {
  std::vector<std::string> layers;
  for (NodeId node = 0; node < tape.graph().node_count(); ++node) layers.emplace_back(tape.layer(node));
  return layers;
}

PlanView view_of(Session& session, const Step& step, std::span<const LaunchTime> times) {
  const StepGraph graph = with_kept_results(session.tape().graph());
  const DeviceInfo& info = session.backend().info();
  // Of all the ways to run a node, the plan in use knows the one it has chosen.
  Plan plan = step.plan();
  Costs costs;
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    costs.add(std::span(&step.chosen(node), 1));
    plan.placements[static_cast<std::size_t>(node)].choice = 0;
  }
  const int streams = static_cast<int>(plan.streams.size());
  PlanView view =
      view_of(Problem{graph, graph.edges(), costs, streams, info.capacity, info.shares_units}, std::move(plan));
  view.device = info.name;
  view.layers = layers_of(session.tape());
  view.measured = runs_of(times, graph.node_count());
  return view;
}

}  // namespace braid
