#include "train/report/plan/trace.h"

#include "core/text/text.h"
#include "train/report/plan/plan_page.h"

namespace braid {

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
  if (!times.launches.empty()) view.measured.resize(static_cast<std::size_t>(graph.node_count()));
  for (const LaunchTime& time : times.launches) {
    view.measured[static_cast<std::size_t>(time.index)] = {time.start, time.finish};
  }
  view.clock = times.clock;
  return view;
}

std::string to_html(Session& session, const Step& step, const RunTimes& times) {
  scheduler::PlanView view = view_of(session, step, times);
  view.title = message("a step of ", plural(view.problem.graph.node_count(), "node"));
  return scheduler::plan_page(view);
}

}  // namespace braid
