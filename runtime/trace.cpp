#include "runtime/trace.h"

namespace braid {

std::vector<std::string> layers_of(const Tape& tape) {
  std::vector<std::string> layers;
  for (NodeId node = 0; node < tape.graph().node_count(); ++node) layers.emplace_back(tape.layer(node));
  return layers;
}

PlanInUse plan_in_use(const Step& step) {
  PlanInUse in_use{.plan = step.plan(), .costs = {}};
  for (NodeId node = 0; node < step.graph().node_count(); ++node) {
    in_use.costs.add(std::span(&step.chosen(node), 1));
    in_use.plan.placements[static_cast<std::size_t>(node)].implementation = 0;
  }
  return in_use;
}

scheduler::PlanView view_of(Session& session, const Step& step, const RunTimes& times) {
  const StepGraph& graph = step.graph();
  const DeviceInfo& info = session.backend().info();
  auto [plan, costs] = plan_in_use(step);
  const int streams = static_cast<int>(plan.commands.streams.size());
  scheduler::PlanView view = view_of(scheduler::make_problem(graph, std::move(costs), info, streams), std::move(plan));
  view.device = info.name;
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    view.layers.emplace_back(session.tape().layer(step.recorded_node(node)));
  }
  view.measured = scheduler::runs_of(times.launches, graph.node_count());
  view.clock = times.clock;
  return view;
}

}  // namespace braid
