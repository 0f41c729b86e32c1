// What the executor asks of CUDA is the plan, the whole plan and nothing but the plan.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "models/registry.h"
#include "tests/cuda/fresh_device.h"
#include "tests/cuda/networks.h"
#include "tests/cuda/sequence/trace.h"
#include "tests/faults.h"
#include "train/optimizer.h"

namespace braid::testing {
namespace {

void check_program(const Ran& ran, const std::vector<int>& streams) {
  const std::vector<int> used(streams.begin(),
                              streams.begin() + static_cast<std::ptrdiff_t>(ran.plan.commands.streams.size()));
  const Trace trace = trace_of(recording::calls(), used);
  REQUIRE(joined(differences(trace, ran.plan)) == "");
  CHECK(joined(stray_pointers(trace, ran)) == "");
  CHECK(joined(shared_handles(trace)) == "");
  for (const auto& commands : ran.plan.commands.streams) {
    for (const Command& command : commands) {
      if (command.kind != Command::Kind::launch) continue;
      CAPTURE(ran.graph.node(command.index).op->name());
      CHECK(std::ranges::find(trace.launches, command.index, &NodeLaunch::node) != trace.launches.end());
    }
  }
}

/// Runs `record` five times as a step, of which the third is issued into a capture and the later ones replay it.
/// Returns the number of waits in the plan.
template <class Record>
std::size_t check_session(Session& session, const std::vector<int>& streams, Record record) {
  std::size_t waits = 0;
  NodeMarks marks;
  session.set_observer(&marks);
  for (int run = 0; run < 5; ++run) {
    Step step = session.step();
    record();
    step.plan_ahead();  // this also launches some kernels
    recording::clear();
    step.run();
    if (run > 2) continue;
    const Ran ran = inspect(session, step);
    check_program(ran, streams);
    waits = static_cast<std::size_t>(ran.plan.commands.waits());
  }
  session.set_observer(nullptr);
  return waits;
}

TEST_CASE("a deterministic session runs a convolution by the same algorithm on any number of streams") {
  const auto algorithms = [](int streams, bool deterministic) {
    recording::reset();
    Session session({.device = "cuda", .streams = streams, .tf32 = false, .deterministic = deterministic});
    const auto net = models::make_model("pathnet_conv", session, {.classes = 10, .image_shape = {32, 32, 3}});
    Step step = session.step();
    backward(cross_entropy((*net)(Tensor(noise({8, 32, 32, 3}, 1))), Array(DType::i32, {8})));
    step.run();
    std::vector<std::string> list;
    for (NodeId node = 0; node < step.graph().node_count(); ++node) {
      if (step.graph().node(node).op->name().starts_with("conv2d")) list.push_back(step.chosen(node).algorithm);
    }
    return list;
  };
  CHECK(algorithms(1, true) == algorithms(4, true));
  CHECK(algorithms(1, false) != algorithms(4, false));  // concurrency favours others
}

TEST_CASE("a convolution that is computed twice has the same algorithm twice in a deterministic session") {
  const FreshDevice world;
  Session session({.device = "cuda", .streams = 4, .tf32 = false});
  const auto net = models::make_model("pathnet_conv", session, {.classes = 10, .image_shape = {32, 32, 3}});
  Step step = session.step();
  const Tensor x = noise({8, 32, 32, 3}, 1);
  backward(cross_entropy(checkpoint([&](const Tensor& in) { return (*net)(in); }, x), Array(DType::i32, {8})));
  step.run();
  std::map<NodeId, std::vector<std::string>> algorithms;  // by recorded node
  for (NodeId node = 0; node < step.graph().node_count(); ++node) {
    if (step.graph().node(node).op->name() != "conv2d") continue;
    algorithms[step.recorded_node(node)].push_back(step.chosen(node).algorithm);
  }
  std::size_t repeated = 0;
  for (const auto& [node, list] : algorithms) {
    CHECK(list == std::vector(list.size(), list.front()));
    repeated += list.size() > 1;
  }
  CHECK(repeated > 0);
}

TEST_CASE("launches, records and waits are the plan's, launched singly and captured") {
  std::size_t waits = 0;
  for (const int streams : {1, 2, 4}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      CAPTURE(streams);
      CAPTURE(seed);
      const FreshDevice world;
      Session session({.device = "cuda", .streams = streams});
      const std::vector<int> ids = program_streams(recording::calls());
      CHECK(ids.size() == static_cast<std::size_t>(streams));
      waits += check_session(session, ids, [&] { random_network(Tensor(noise({8, 8}, seed)), seed, 40); });
    }
  }
  CHECK(waits > 50);
}

TEST_CASE("a GoogLeNet trains by its plan") {  // forward, backward and update
  for (const int streams : {1, 4}) {
    CAPTURE(streams);
    const FreshDevice world;
    Session session({.device = "cuda", .streams = streams});
    const std::vector<int> ids = program_streams(recording::calls());
    const auto model =
        models::make_model("googlenet", session, {.image_shape = {16, 16, 3}, .width = 0.25, .auxiliary = true});
    SGD sgd(model->parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4});
    const std::size_t waits = check_session(session, ids, [&] {
      const Tensor images = noise({2, 16, 16, 3}, 1);
      backward(training_loss(model->heads(images), Tensor(Array::from<std::int32_t>({3, 7}, {2}))));
      sgd.step();
    });
    CHECK((waits > 0) == (streams > 1));
  }
}

}  // namespace
}  // namespace braid::testing
