#include <doctest/doctest.h>

#include <map>

#include "tests/scheduler/schedules.h"

namespace braid::scheduler::testing {
namespace {

Plan serial_plan(const StepGraph& graph) { return make_plan(graph, unit_costs(graph), serial, "serial", 1, 1); }

ValueId add_in_place(StepGraph& graph, const std::vector<ValueId>& inputs, std::int64_t bytes = 256) {
  return add(graph, inputs, {.dtype = DType::u8, .shape = Shape{bytes}, .reuses = 0});
}

/// Node i on streams[i], in recording order.
Plan plan_on_streams(const StepGraph& graph, const Costs& costs, const std::vector<int>& streams, int count) {
  Plan plan = commands_of(graph, on_streams(streams), count);
  plan_memory(graph, costs, plan);
  return plan;
}

/// The most bytes in use when any node starts, for values in separate bytes; values at one address count once.
/// Values that end at that time are no longer in use: their bytes may belong to a value that begins then.
std::int64_t bytes_in_use(const StepGraph& graph, const Plan& plan) {
  std::int64_t most = 0;
  for (NodeId now = 0; now < graph.node_count(); ++now) {
    if (graph.node(now).is_view) continue;
    const double time = plan.placements[now].start;
    std::map<std::int64_t, std::int64_t> live;  // offset -> bytes
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      const Value& value = graph.value(id);
      if (value.slot >= 0 || value.root != id) continue;
      const double begin = value.producer == kNoNode ? 0 : plan.placements[value.producer].start;
      double end = value.producer == kNoNode ? 0 : plan.placements[value.producer].finish;
      for (NodeId user = 0; user < graph.node_count(); ++user) {
        for (const ValueId input : graph.inputs(user)) {
          if (!graph.node(user).is_view && graph.value(input).root == id)
            end = std::max(end, plan.placements[user].finish);
        }
      }
      if (begin > time || (end <= time && !value.kept)) continue;
      std::int64_t& bytes = live[plan.offsets[id]];
      bytes = std::max(bytes, (static_cast<std::int64_t>(value.bytes()) + 255) / 256 * 256);
    }
    std::int64_t sum = 0;
    for (const auto& [offset, bytes] : live) sum += bytes;
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

TEST_CASE("a chain that may work in place needs one buffer") {
  StepGraph graph;
  ValueId value = graph.add_input(bytes_desc(1000));
  for (int i = 0; i < 10; ++i) value = add_in_place(graph, {value}, 1000);
  const Plan plan = serial_plan(graph);
  CHECK(plan.arena_bytes == 1024);
  CHECK(std::ranges::all_of(plan.offsets, [](std::int64_t offset) { return offset == 0; }));
}

TEST_CASE("a stream's workspace is as large as the largest among the implementations of its nodes") {
  const StepGraph graph = independent(3);
  Costs costs;
  for (const std::size_t bytes : {300, 100, 1000}) {
    const Cost implementations[] = {{.width = 1, .duration = 1, .workspace_bytes = bytes},
                                    {.width = 2, .duration = 2, .workspace_bytes = 9999}};
    costs.add(implementations);
  }
  const Plan plan = plan_on_streams(graph, costs, {0, 0, 2}, 3);
  const std::int64_t values = 2 * 256;  // one buffer per stream: no node reads them
  CHECK(plan.workspaces == std::vector<ArenaSlice>{{values, 300}, {values + 512, 0}, {values + 512, 1000}});
  CHECK(plan.arena_bytes == values + 512 + 1024);
  CHECK(plan.naive_bytes == 3 * 256 + 512 + 1024);
}

TEST_CASE("a training step of a chain of layers needs no more than its live bytes") {
  StepGraph graph;
  ValueId value = graph.add_input(bytes_desc(4096));
  std::vector<ValueId> activations;
  for (int i = 0; i < 20; ++i) {
    activations.push_back(value);
    value = add(graph, {value}, 4096 * (1 + i % 3));
  }
  ValueId gradient = add(graph, {value}, 4096);
  for (int i = 19; i >= 0; --i) gradient = add(graph, {gradient, activations[i]}, 4096 * (1 + i % 2));

  std::vector<NodeId> last_use(graph.value_count(), -1);
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    for (const ValueId input : graph.inputs(id)) last_use[input] = id;
    last_use[graph.output(id, 0)] = id;
  }
  std::int64_t most = 0;
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    std::int64_t live = 0;
    for (ValueId v = 0; v < graph.value_count(); ++v) {
      if (graph.value(v).producer <= id && last_use[v] >= id) live += static_cast<std::int64_t>(graph.value(v).bytes());
    }
    most = std::max(most, live);
  }
  CHECK(serial_plan(graph).arena_bytes == most);
}

TEST_CASE("live bytes are the most that is in use at one time, and no arena is smaller") {
  StepGraph graph;  // 0 -> 1 -> 3 and 0 -> 2 -> 3; 1 and 2 run side by side, 2 for longer
  const ValueId a = add(graph, {}, 1000);
  const ValueId b = add(graph, {a}, 2000);
  const ValueId c = add(graph, {a}, 4000);
  add(graph, {b, c}, 100);
  const Costs costs = choices_of({{.duration = 1, .workspace_bytes = 300},
                                  {.duration = 2, .workspace_bytes = 300},
                                  {.duration = 3, .workspace_bytes = 300},
                                  {.duration = 1, .workspace_bytes = 300}});
  const Plan one = make_plan(graph, costs, serial, "serial", 1, 2);
  CHECK(one.live_bytes == 1024 + 2048 + 4096 + 512);
  const Plan two = make_plan(graph, costs, critical_path, "critical_path", 2, 2);
  CHECK(two.makespan == 5);
  CHECK(two.live_bytes == 1024 + 2048 + 4096 + 2 * 512);
}

TEST_CASE("bytes that end when others begin are not in use together, even halfway through a longer node") {
  StepGraph graph;  // 0 runs alongside 1 -> 2, twice as long as each
  const ValueId one = graph.add_input(bytes_desc(2000));
  const ValueId two = graph.add_input(bytes_desc(2000));
  add(graph, {}, 100);
  const ValueId handed_on = add(graph, {one, two}, 1000);
  add(graph, {handed_on}, 4000);
  const Costs costs = choices_of({{.duration = 16}, {.duration = 8}, {.duration = 8}});
  const Plan plan = make_plan(graph, costs, critical_path, "critical_path", 2, 2);
  REQUIRE(plan.placements[1].finish == plan.placements[2].start);
  REQUIRE(plan.placements[0].finish == 2 * plan.placements[1].finish);
  CHECK(plan.live_bytes == 256 + 1024 + 2 * 2048);
  CHECK(bytes_in_use(graph, plan) == plan.live_bytes);
}

TEST_CASE("live bytes agree with a count over all pairs of nodes and values") {
  int equal = 0;
  for (std::uint64_t seed = 0; seed < some_of(500); ++seed) {
    const RandomStep step = random_step(seed, 40);
    for (const int streams : {1, 3}) {
      const Plan plan = make_plan(step.graph, step.costs, critical_path, "critical_path", streams, step.capacity);
      INFO("seed ", seed, ", ", streams, " streams");
      std::int64_t workspaces = 0;
      for (const ArenaSlice& slice : plan.workspaces) workspaces += (slice.bytes + 255) / 256 * 256;
      const std::int64_t counted = workspaces + bytes_in_use(step.graph, plan);
      REQUIRE(plan.live_bytes >= counted);
      equal += plan.live_bytes == counted ? 1 : 0;
      REQUIRE(memory_use(step.graph, plan).workspaces == workspaces);
    }
  }
  CHECK(equal > some_of(900));  // out of 1000: nodes that take no time and bytes left idle in place make the difference
}

TEST_CASE("waits let large values share bytes where it costs no time") {
  // Two chains on two streams. Every fourth value is large, and those of one chain are over when those of the other
  // begin.
  StepGraph graph;
  std::vector<Cost> costs;
  ValueId chains[] = {graph.add_input(bytes_desc(256)), graph.add_input(bytes_desc(256))};
  for (int i = 0; i < 8; ++i) {
    for (int chain = 0; chain < 2; ++chain) {
      chains[chain] = add(graph, {chains[chain]}, (i + 2 * chain) % 4 == 0 ? 1 << 20 : 256);
      costs.push_back({.duration = 10});
    }
  }
  const Problem problem = make_problem(graph, choices_of(costs), 2, 2);
  Plan free = plan_commands(problem, critical_path(problem), "critical_path");
  plan_memory(graph, problem.costs, free);
  const Plan plan = make_plan(problem, critical_path, "critical_path");
  CHECK(free.commands.waits() == 0);
  CHECK(plan.commands.waits() > 0);
  CHECK(simulate(problem, plan).makespan == simulate(problem, free).makespan);
  CHECK(plan.live_bytes == free.live_bytes);
  CHECK(2 * free.arena_bytes > 3 * free.live_bytes);
  CHECK(100 * plan.arena_bytes <= 105 * plan.live_bytes);
}

TEST_CASE("memory is classified by its purpose") {
  StepGraph graph;
  const ValueId weight = graph.add_persistent(bytes_desc(5000), ValueKind::parameter, 0);
  const ValueId momentum = graph.add_persistent(bytes_desc(6000), ValueKind::state, 1);
  const ValueId input = graph.add_input(bytes_desc(300));
  const ValueId hidden = add(graph, {input, weight}, 700);
  const auto gradient_op = std::make_shared<TestOp>(std::vector{bytes_output(1025)});
  const ValueId gradient = graph.add_node(gradient_op, {input, hidden}, ValueKind::gradient);
  OutputDesc next = bytes_output(5000), next_momentum = bytes_output(6000);
  next.overwrites = 0;
  next_momentum.overwrites = 1;
  graph.add_node(std::make_shared<TestOp>(std::vector{next, next_momentum}), {weight, momentum, gradient});
  const MemoryUse use = memory_use(graph, serial_plan(graph));
  CHECK(use.inputs == 512);
  CHECK(use.activations == 768);
  CHECK(use.gradients == 1280);
  CHECK(use.workspaces == 0);
  CHECK(use.persistent == 11000);
}

TEST_CASE("a graph too large to compare all pairs is planned safely and well") {
  RandomStep step;
  for (std::uint64_t seed = 0; step.graph.node_count() < 9000; ++seed) step = random_step(seed, 12000);
  for (const int streams : {1, 4}) {
    const Plan plan = make_plan(step.graph, step.costs, critical_path, "critical_path", streams, step.capacity);
    CHECK(verify_plan(step.graph, step.costs, plan).empty());
    CHECK(plan.arena_bytes < plan.naive_bytes / 2);
  }
}

}  // namespace braid::scheduler::testing
