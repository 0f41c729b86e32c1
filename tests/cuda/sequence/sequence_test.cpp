// Steps in a row as they are really issued: launch by launch, with inputs sent ahead, and as graphs.

#include "tests/cuda/sequence/sequence.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "models/registry.h"
#include "tests/cuda/networks.h"
#include "tests/faults.h"
#include "tests/scheduler/random_graph.h"
#include "tests/test_program.h"
#include "train/optimizer.h"

namespace braid::testing {
namespace {

using Kind = Operation::Kind;

/// Places node i on stream kStreams[i], in recording order.
scheduler::Schedule placed_by_hand(const scheduler::Problem& problem) {
  constexpr int kStreams[] = {0, 1, 2, 0, 1, 2, 0};
  scheduler::Schedule schedule;
  for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
    schedule.placements.push_back({.stream = kStreams[node], .start = 2.0 * node, .finish = 2.0 * node + 2});
    schedule.order.push_back(node);
  }
  return schedule;
}

/// A training step in small, in which every wait counts: each stream begins with a node that waits for no other and
/// reads the input and a parameter, and ends with one that no other waits for and that makes a value to keep. Node 3
/// updates the parameter. Every node has a workspace.
struct Training {
  StepGraph graph;
  scheduler::Costs costs;
  scheduler::Plan plan;

  Training() {
    const ValueId weight = graph.add_persistent(bytes_desc(1000), ValueKind::parameter, 0);
    const std::vector<ValueId> read{weight, graph.add_input(bytes_desc(700))};
    const ValueId a = add(graph, read), b = add(graph, read), c = add(graph, read);
    add_update(graph, {weight, a}, 1000);
    for (const auto& [left, right] : {std::pair(a, b), std::pair(b, c), std::pair(a, c)}) {
      graph.keep(add(graph, {left, right}));
    }
    costs = choices_of(std::vector<scheduler::Cost>(7, {.width = 1, .duration = 2, .workspace_bytes = 300}));
    plan = make_plan(graph, costs, placed_by_hand, "by hand", 3, 3);
  }
};

std::int64_t address_of(const void* data) { return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data)); }

enum class Way { launches, prefetch, graph };

/// The hand-made training step, run some times by the real stream group.
TracedSteps run_training(const Training& t, Way way, int steps) {
  TestKernel kernel([] {});
  const Program program{t.plan.commands, std::vector<Kernel*>(t.plan.placements.size(), &kernel)};

  recording::reset();
  const auto backend = make_backend({DeviceType::cuda, 0});
  const Buffer arena = backend->allocate(static_cast<std::size_t>(t.plan.arena_bytes)),
               weight = backend->allocate(1000);
  const StepMemory memory(t.graph, t.costs, t.plan, address_of(arena.data()), {address_of(weight.data())});
  const auto group = backend->make_streams({.count = 3});
  const std::vector<int> streams = program_streams(recording::calls());
  const ValueId input = memory.inputs().at(0);
  std::vector<std::vector<char>> images(static_cast<std::size_t>(steps) + 1, std::vector<char>(700));
  const auto upload = [&](int step) {
    auto& image = images[static_cast<std::size_t>(step)];
    return Upload{static_cast<std::byte*>(arena.data()) + t.plan.offsets[static_cast<std::size_t>(input)], image.data(),
                  image.size()};
  };

  recording::clear();
  NodeMarks marks;
  group->set_observer(&marks);
  std::unique_ptr<Replay> replay;
  for (int step = 0; step < steps; ++step) {
    recording::mark("step", 0, step);
    group->admit();
    group->upload(std::vector{upload(step)});
    if (way == Way::graph && step == 1) replay = group->capture(program);
    replay != nullptr ? group->launch(*replay) : group->launch(program);
    if (way != Way::launches) group->prefetch(std::vector{upload(step + 1)});
  }
  group->synchronize();
  Array result(DType::u8, {256});
  for (const ValueId kept : {t.graph.output(4, 0), t.graph.output(5, 0), t.graph.output(6, 0)}) {
    const auto offset = t.plan.offsets[static_cast<std::size_t>(kept)];
    backend->copy_to_host(result.data(), static_cast<std::byte*>(arena.data()) + offset, 256);
  }
  return steps_of(recording::calls(), memory, streams);
}

bool is_stream_wait(const Operation& operation) { return operation.kind == Kind::wait && operation.queue != kHost; }
bool of_step(const Operation& operation, int step) { return operation.name.starts_with(message("step ", step, ":")); }

std::vector<Operation> without(std::vector<Operation> operations, std::size_t i) {
  operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(i));
  return operations;
}

}  // namespace

TEST_CASE("steps in a row are issued safely, and every wait between streams is necessary") {
  const Training t;
  for (const Way way : {Way::launches, Way::prefetch, Way::graph}) {
    CAPTURE(static_cast<int>(way));
    const TracedSteps traced = run_training(t, way, 5);
    REQUIRE(joined(traced.faults) == "");
    REQUIRE(joined(verify_operations(traced.operations)) == "");

    int dropped = 0, host_waits = 0;
    for (std::size_t i = 0; i < traced.operations.size(); ++i) {
      const Operation& operation = traced.operations[i];
      if (operation.kind != Kind::wait) continue;
      const std::vector<Operation> broken = without(traced.operations, i);
      const bool racy = mentions(verify_operations(broken), "not ordered");
      INFO(operation.name);
      if (operation.queue == kHost) host_waits += racy ? 1 : 0;
      // In the first step nothing has used the parameter before, and the internal waits of a graph are up to CUDA.
      if (!is_stream_wait(operation) || of_step(operation, 0) || way == Way::graph) continue;
      CHECK(racy);
      ++dropped;
    }
    // Plan, fork and join: 4 + 2 + 2 waits per step. One more for the upload.
    if (way != Way::graph) CHECK(dropped == 4 * (4 + 2 + 2 + 1));
    CHECK(host_waits >= (way == Way::launches ? 1 : 2));

    std::vector<Operation> careless = traced.operations;
    std::erase_if(careless, [](const Operation& o) { return o.kind == Kind::wait && o.queue == kHost; });
    CHECK(mentions(verify_operations(careless), "not ordered"));
  }
}

TEST_CASE("real uploads need the second slot of staging memory") {
  const Training t;
  const std::vector<Operation> sequence = run_training(t, Way::prefetch, 5).operations;
  std::vector<Operation> one = sequence;
  for (const std::size_t end : {0, 1}) {
    std::vector<std::int64_t> slots;
    for (const Operation& operation : sequence) {
      if (operation.name.find("upload") != std::string::npos) slots.push_back(operation.accesses[end].begin);
    }
    REQUIRE(slots.size() == 6);  // the first by the step itself, in a separate slot
    REQUIRE(slots[1] == slots[3]);
    REQUIRE(slots[2] == slots[4]);
    REQUIRE(slots[1] != slots[2]);
    for (Operation& operation : one) {
      for (Access& access : operation.accesses) {
        if (access.begin == slots[2]) access = {slots[1], slots[1] + access.bytes(), access.writes, access.content};
      }
    }
  }
  CHECK(mentions(verify_operations(one), "not ordered"));
}

namespace {

/// Runs `record` as several steps, most of whose inputs are sent ahead, and verifies them together. Returns the number
/// of their operations.
template <class Record>
std::size_t check_session(const SessionOptions& options, const std::vector<Array>& images, Record record) {
  recording::reset();
  Session session(options);
  const std::vector<int> ids = program_streams(recording::calls());
  record.prepare(session);
  {
    Step step = session.step();  // in which optimizers add their state
    record(images[0]);
    step.run();
  }
  session.synchronize();
  recording::clear();
  NodeMarks marks;
  session.set_observer(&marks);
  std::size_t operations = 0;
  for (std::size_t k = 0; k < images.size(); ++k) {
    recording::mark("step", 0, static_cast<int>(k));
    Step step = session.step();
    record(images[k]);
    step.run();
    if (k + 1 < images.size()) {
      if (k % 3 != 2) session.prefetch(std::vector{images[k + 1]});
      continue;
    }
    session.synchronize();
    const std::vector<Call> calls = recording::calls();
    const Ran ran = inspect(session, step);
    std::vector<std::int64_t> slots;
    for (const Value& value : ran.graph.values()) {
      if (value.slot < 0) continue;
      slots.resize(std::max(slots.size(), static_cast<std::size_t>(value.slot) + 1));
      slots[static_cast<std::size_t>(value.slot)] = address_of(session.parameter(value.slot).data());
    }
    const StepMemory memory(ran.graph, ran.costs, ran.plan, address_of(ran.arena), slots);
    const std::vector<int> used(ids.begin(),
                                ids.begin() + static_cast<std::ptrdiff_t>(ran.plan.commands.streams.size()));
    TracedSteps traced = steps_of(calls, memory, used);
    traced.operations.push_back({.name = "the host", .accesses = memory.final(static_cast<int>(k))});
    CHECK(joined(traced.faults) == "");
    CHECK(joined(verify_operations(traced.operations)) == "");
    operations = traced.operations.size();
  }
  session.set_observer(nullptr);
  return operations;
}

struct RandomNetwork {
  std::uint64_t seed;
  void prepare(Session&) {}
  void operator()(const Array& image) { random_network(Tensor(image), seed, 16).keep(); }
};

struct Classifier {
  std::string name;
  std::unique_ptr<Module> model = nullptr;
  std::unique_ptr<SGD> sgd = nullptr;

  void prepare(Session& session) {
    model = models::make_model(name, session, {.image_shape = {16, 16, 3}, .width = 0.25, .auxiliary = true});
    sgd = std::make_unique<SGD>(model->parameters(), SGD::Options{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4});
  }
  void operator()(const Array& image) {
    backward(training_loss(model->heads(Tensor(image)), Tensor(Array::from<std::int32_t>({3, 7}, {2}))));
    sgd->step();
  }
};

std::vector<Array> images_of(const Shape& shape, int count) {
  std::vector<Array> images;
  for (int i = 0; i < count; ++i) images.push_back(noise(shape, static_cast<std::uint64_t>(i)));
  return images;
}

}  // namespace

TEST_CASE("random networks follow each other safely") {
  for (const bool cuda_graphs : {false, true}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(cuda_graphs);
      CAPTURE(seed);
      const SessionOptions options{.device = "cuda", .streams = 3, .cuda_graphs = cuda_graphs};
      CHECK(check_session(options, images_of({8, 8}, 5), RandomNetwork{seed}) > 100);
    }
  }
}

TEST_CASE("training steps of whole networks follow each other safely") {
  for (const std::string name : {"resnet20", "googlenet"}) {
    for (const bool cuda_graphs : {false, true}) {
      CAPTURE(name);
      CAPTURE(cuda_graphs);
      const SessionOptions options{.device = "cuda", .streams = 4, .cuda_graphs = cuda_graphs};
      CHECK(check_session(options, images_of({2, 16, 16, 3}, 5), Classifier{name}) > 1000);
    }
  }
}

}  // namespace braid::testing
