#include "tests/cuda/step_counts/step_counts.h"

#include <algorithm>

#include "tests/cuda/sequence/trace.h"
#include "tests/faults.h"
#include "train/run/job/learner.h"

namespace braid::testing {

namespace {

/// Counts a step that was launched node by node, from the log of its launches.
StepCounts count_launches(const StepGraph& graph, const scheduler::Plan& plan, std::span<const int> streams) {
  const Trace trace = trace_of(recording::calls(), streams);
  const std::string faults = joined(differences(trace, plan));
  BRAID_CHECK(faults.empty(), Error, "[step counts] the step is not its plan:\n", faults);
  StepCounts counts;
  counts.kernels = static_cast<std::int64_t>(trace.launches.size());
  for (const auto& commands : trace.streams) {
    counts.waits += std::ranges::count(commands, Command::Kind::wait, &Command::kind);
  }
  scheduler::Costs kernels;  // per node, in place of microseconds
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    const auto own = std::ranges::count(trace.launches, id, &NodeLaunch::node);
    kernels.add(std::vector<scheduler::Cost>{{.duration = static_cast<double>(own)}});
    if (graph.node(id).is_view) continue;
    const Work work = graph.node(id).op->work(graph.input_descs(id), graph.output_descs(id));
    counts.bytes += work.bytes;
    counts.flops += work.flops;
  }
  counts.chain = static_cast<std::int64_t>(std::ranges::max(bottom_levels(graph.edges(), kernels)));
  return counts;
}

/// Nodes of the graph that the logged calls capture: events are its edges.
std::int64_t count_captured(const std::vector<Call>& calls) {
  return std::ranges::count_if(calls, [](const Call& call) {
    return call.graph >= 0 && call.status == 0 &&
           (call.kind == Call::Kind::launch || call.kind == Call::Kind::copy || call.kind == Call::Kind::fill);
  });
}

}  // namespace

StepCounts count_step(const TrainConfig& config) {
  recording::reset();
  Session session(config.session);
  const std::vector<int> streams = program_streams(recording::calls());
  const auto dataset = DatasetPool().get(config, Split::train);
  Learner learner(config, session, *dataset);
  const Shape image = dataset->image_shape();
  const Batch batch{Array(DType::f32, {config.batch_size, image[0], image[1], image[2]}),
                    Array(DType::i32, {config.batch_size})};
  NodeMarks marks;
  session.set_observer(&marks);
  StepCounts counts;
  for (int run = 0; run < 3; ++run) {  // the third is captured
    Step step = session.step();
    learner.record(batch);
    step.plan_ahead();  // this also launches some kernels
    recording::clear();
    step.run();
    if (run > 0) continue;
    const scheduler::Plan& plan = step.plan();
    counts = count_launches(step.graph(), plan, std::span(streams).first(plan.commands.streams.size()));
  }
  counts.graph_nodes = count_captured(recording::calls());
  session.set_observer(nullptr);
  BRAID_CHECK(counts.graph_nodes > 0, Error, "[step counts] the step was not captured: ", session.capture_report());
  return counts;
}

}  // namespace braid::testing
