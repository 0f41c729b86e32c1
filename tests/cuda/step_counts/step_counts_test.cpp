// The counts of a step, against its plan and its graph.

#include "tests/cuda/step_counts/step_counts.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/cuda/recording/recording.h"
#include "tests/train/single_job.h"
#include "train/run/learner.h"

namespace braid::testing {
namespace {

TrainConfig small_step(const std::string& model, int streams) {
  return parse_train_config(
      "name: small\n"
      "device: cuda\n"
      "precision: f32\n"
      "data: {name: synthetic, size: 4, val_size: 1, image_size: 28, channels: 1, classes: 10}\n"
      "train: {epochs: 1, batch_size: 4}\n",
      "small.yaml", {"model.name=" + model, "streams=" + std::to_string(streams)});
}

/// The plan of the same step, and what a session without CUDA graphs launches for it.
struct Launched {
  std::int64_t nodes = 0, kernels = 0, waits = 0, streams = 0;
  double bytes = 0;
};

Launched launch_step(TrainConfig config) {
  recording::reset();
  config.session.cuda_graphs = false;
  Session session(config.session);
  const auto dataset = DatasetPool().get(config, Split::train);
  Learner learner(config, session, *dataset);
  Step step = session.step();
  learner.record(Array(DType::f32, {4, 28, 28, 1}), Array(DType::i32, {4}));
  step.plan_ahead();
  recording::clear();
  step.run();
  const scheduler::Plan& plan = step.plan();
  Launched launched{.waits = plan.commands.waits(), .streams = static_cast<std::int64_t>(plan.commands.streams.size())};
  launched.kernels = std::ranges::count(recording::calls(), recording::Call::Kind::launch, &recording::Call::kind);
  const StepGraph& graph = step.graph();
  for (const auto& commands : plan.commands.streams) {
    for (const auto [kind, node] : commands) {
      if (kind != Command::Kind::launch) continue;
      ++launched.nodes;
      launched.bytes += graph.node(node).op->work(graph.input_descs(node), graph.output_descs(node)).bytes;
    }
  }
  return launched;
}

TEST_CASE("the counts of a step of three linear layers are those that one finds by hand") {
  const StepCounts counts = count_step(small_step("mlp", 1));
  // Forward 5, loss and accuracy 2 each, the loss's gradient and its seed, backward 3 + 4 + 3, one update.
  CHECK(counts.kernels == 22);
  // Forward 5, loss 2, its gradient, two times data and ReLU, filter, update.
  CHECK(counts.chain == 14);
  CHECK(counts.waits == 0);
}

TEST_CASE("the counts of a step are those of its plan, of its launches and of the CUDA graph that it becomes") {
  StepCounts serial;
  for (const int streams : {1, 4}) {
    CAPTURE(streams);
    const StepCounts counts = count_step(small_step("googlenet", streams));
    CHECK(recording::mistakes().empty());
    const Launched launched = launch_step(small_step("googlenet", streams));
    CHECK(counts.kernels == launched.kernels);
    CHECK(counts.kernels >= launched.nodes);  // some take two
    CHECK(counts.graph_nodes == counts.kernels);
    CHECK(launched.streams == streams);
    CHECK(counts.waits == launched.waits + 2 * (streams - 1));  // it forks and joins
    CHECK((counts.waits > 0) == (streams > 1));
    CHECK(counts.bytes == doctest::Approx(launched.bytes));
    CHECK(counts.chain < counts.kernels);
    if (streams == 1) serial = counts;
    CHECK(counts.kernels == serial.kernels);  // streams change the order and not the work
    CHECK(counts.chain == serial.chain);
    CHECK(counts.bytes == serial.bytes);
    CHECK(counts.flops == serial.flops);
  }
}

}  // namespace
}  // namespace braid::testing
