#pragma once
// Random training steps, each a function of its seed: layered and random-edge DAGs with everything that makes
// planning hard: parameters that are read and then overwritten, values written in place, views, values kept to the end,
// inputs, empty values, nodes of several widths and free nodes, workspaces, and links.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "scheduler/plan.h"
#include "tests/effort.h"
#include "tests/test_op.h"

namespace braid::scheduler::testing {

using braid::testing::some_of;
using braid::testing::TestOp;

inline ValueDesc bytes_desc(std::int64_t bytes) { return {DType::u8, Shape{bytes}}; }
inline OutputDesc bytes_output(std::int64_t bytes) { return {.dtype = DType::u8, .shape = Shape{bytes}}; }

/// Adds a node with one output. Returns the output.
inline ValueId add(StepGraph& graph, const std::vector<ValueId>& inputs, const OutputDesc& output) {
  return graph.add_node(std::make_shared<TestOp>(std::vector{output}), inputs);
}

/// Adds a node with one output of this size in bytes. Returns the output.
inline ValueId add(StepGraph& graph, const std::vector<ValueId>& inputs, std::int64_t bytes = 256) {
  return add(graph, inputs, bytes_output(bytes));
}

/// Adds a node of this work with one output of 8 bytes.
inline void add_work(StepGraph& graph, ValueId input, const Work& work) {
  graph.add_node(std::make_shared<TestOp>(std::vector{bytes_output(8)}, work), {input});
}

/// Adds a view of a value, of this size in bytes.
inline ValueId add_view(StepGraph& graph, ValueId value, std::int64_t bytes = 256) {
  return add(graph, {value}, {.dtype = DType::u8, .shape = Shape{bytes}, .views = 0});
}

/// Adds an update, which makes the next version of its first input, of this size in bytes.
inline ValueId add_update(StepGraph& graph, const std::vector<ValueId>& inputs, std::int64_t bytes) {
  return add(graph, inputs, {.dtype = DType::u8, .shape = Shape{bytes}, .overwrites = 0});
}

/// Nodes that wait for nothing.
inline StepGraph independent(int nodes) {
  StepGraph graph;
  for (int i = 0; i < nodes; ++i) add(graph, {});
  return graph;
}

/// 0 -> 1, 2 -> 3
inline StepGraph diamond() {
  StepGraph graph;
  const ValueId a = add(graph, {}), b = add(graph, {a}), c = add(graph, {a});
  add(graph, {b, c});
  return graph;
}

/// Costs where node i has the implementations listed for it.
inline Costs costs_of(const std::vector<std::vector<Cost>>& nodes) {
  Costs costs;
  for (const auto& implementations : nodes) costs.add(implementations);
  return costs;
}

/// Costs where node i has one implementation.
inline Costs choices_of(const std::vector<Cost>& nodes) {
  Costs costs;
  for (const Cost& cost : nodes) costs.add({&cost, 1});
  return costs;
}

/// Costs of a graph in which every node has one implementation of width 1 and this duration.
inline Costs unit_costs(const StepGraph& graph, double duration = 1) {
  Costs costs;
  for (const Node& node : graph.nodes()) {
    const Cost cost{.width = 1, .duration = node.is_view ? 0 : duration};
    costs.add({&cost, 1});
  }
  return costs;
}

struct RandomStep {
  StepGraph graph;
  Costs costs;
  int capacity = 1;
};

class RandomStepMaker {
 public:
  explicit RandomStepMaker(std::uint64_t seed, int most_nodes, int least_nodes = 3)
      : random_(seed), links_(seed, 1), nodes_(least_nodes + below(most_nodes - least_nodes + 1)) {
    link_count_ = std::max(0, static_cast<int>(links_.below(6)) - 3);  // 0 in two of three steps
  }

  RandomStep make() {
    locality_ = 1 + below(3) * 8;  // small: layers; large: edges across the whole graph
    step_.capacity = 1 + below(chance(10) ? 64 : 8);
    only_narrow_ = chance(30);
    const int inputs = 1 + below(3);
    for (int i = 0; i < inputs; ++i) readable_.push_back(step_.graph.add_input(bytes_desc(random_bytes())));
    const int slots = below(4);
    for (int slot = 0; slot < slots; ++slot) {
      const ValueId value = step_.graph.add_persistent(bytes_desc(random_bytes()), ValueKind::parameter, slot);
      readable_.push_back(value);
      newest_.push_back(value);
    }
    while (step_.graph.node_count() < nodes_) add_random_node();
    for (const ValueId value : newest_) {
      if (chance(20)) step_.graph.keep(value);
    }
    for (const Node& node : step_.graph.nodes()) add_random_costs(node);
    return std::move(step_);
  }

 private:
  int below(int bound) { return static_cast<int>(random_.below(static_cast<std::uint32_t>(bound))); }
  bool chance(int percent) { return below(100) < percent; }
  std::int64_t random_bytes() { return chance(3) ? 0 : 1 + below(chance(50) ? 600 : 5000); }

  ValueId random_value() {
    const int count = static_cast<int>(readable_.size());
    const int oldest = chance(15) ? 0 : std::max(0, count - 4 * locality_);
    return readable_[oldest + below(count - oldest)];
  }
  ValueDesc desc(ValueId value) const { return step_.graph.value(value).desc; }

  void add_random_node() {
    std::vector<ValueId> inputs(chance(3) ? 0 : 1 + below(3));
    for (ValueId& input : inputs) input = random_value();
    std::vector<OutputDesc> outputs;
    if (!inputs.empty() && chance(10)) {
      outputs.push_back({.dtype = DType::u8, .shape = desc(inputs[0]).shape, .views = 0});
    } else {
      if (!newest_.empty() && chance(12)) {
        inputs.insert(inputs.begin(), newest_[below(static_cast<int>(newest_.size()))]);
        outputs.push_back({.dtype = DType::u8, .shape = desc(inputs[0]).shape, .overwrites = 0});
      }
      for (int more = outputs.empty() ? 1 + below(2) : below(2); more > 0; --more)
        outputs.push_back(random_output(inputs));
    }
    const bool overwrites = !outputs.empty() && outputs[0].overwrites >= 0;
    const ValueId first = step_.graph.add_node(std::make_shared<TestOp>(outputs), inputs);
    if (overwrites) supersede(inputs[0], first);
    for (int i = 0; i < static_cast<int>(outputs.size()); ++i) {
      readable_.push_back(first + i);
      if (step_.graph.value(first + i).slot < 0 && chance(6)) step_.graph.keep(first + i);
    }
  }

  OutputDesc random_output(const std::vector<ValueId>& inputs) {
    OutputDesc output = bytes_output(random_bytes());
    if (inputs.empty() || chance(40)) return output;
    output.reuses = below(static_cast<int>(inputs.size()));
    if (chance(70)) output.shape = desc(inputs[output.reuses]).shape;
    return output;
  }

  /// Nothing may read the old version or a view of it any more.
  void supersede(ValueId old, ValueId next) {
    std::erase_if(readable_, [&](ValueId value) { return step_.graph.value(value).root == old; });
    std::ranges::replace(newest_, old, next);
    if (readable_.empty()) readable_.push_back(next);
  }

  void add_random_costs(const Node& node) {
    std::vector<Cost> implementations;
    const int most = node.is_view ? 1 : 1 + below(3);
    int width = only_narrow_ || node.is_view ? 1 : 1 + below(step_.capacity);
    double work = node.is_view || chance(5) ? 0 : 1 + below(20);
    if (chance(30)) work *= random_.uniform();
    for (int i = 0; i < most && width <= step_.capacity; ++i) {
      const std::size_t workspace = node.is_view || chance(60) ? 0 : 1 + below(3000);
      implementations.push_back(
          {.width = width, .duration = work / (1 + 0.7 * (width - 1)), .workspace_bytes = workspace});
      if (only_narrow_) break;
      width += 1 + below(3);
    }
    if (link_count_ > 0 && !node.is_view && links_.below(4) == 0) {
      implementations.resize(1);
      implementations[0].width = static_cast<int>(links_.below(2));
      implementations[0].link = static_cast<int>(links_.below(static_cast<std::uint32_t>(link_count_)));
    }
    step_.costs.add(implementations);
  }

  Generator random_, links_;
  int nodes_, link_count_ = 0;
  int locality_ = 1;
  bool only_narrow_ = false;
  RandomStep step_;
  std::vector<ValueId> readable_, newest_;
};

inline RandomStep random_step(std::uint64_t seed, int most_nodes = 80, int least_nodes = 3) {
  return RandomStepMaker(seed, most_nodes, least_nodes).make();
}

/// A random step on a random machine: of 1 to 64 streams, with units that are shared or not, nodes that hinder each
/// other, or nodes that take no time.
inline Problem random_problem(std::uint64_t seed, int most_nodes = 80, int least_nodes = 3) {
  RandomStep step = random_step(seed, most_nodes, least_nodes);
  Generator random(seed, 2);
  constexpr int kStreams[] = {1, 2, 2, 3, 3, 4, 4, 8, 64};
  const int streams = kStreams[random.below(std::size(kStreams))];
  const bool oversubscribes = random.below(3) == 0, interferes = random.below(3) == 0, timeless = random.below(25) == 0;
  Interference interference;
  constexpr int kKinds = 3;
  for (NodeId node = 0; node < step.graph.node_count(); ++node) {
    for (int i = 0; i < static_cast<int>(step.costs.of(node).size()); ++i) {
      if (timeless) step.costs.set_duration(node, i, 0);
      interference.set_kind(node, i, (node + i) % kKinds);
    }
  }
  for (int i = 0; i < kKinds * kKinds; ++i)
    interference.set_factor(i / kKinds, i % kKinds, 0.3 + 2.7 * random.uniform());
  Problem problem = make_problem(std::move(step.graph), std::move(step.costs), streams, step.capacity, oversubscribes);
  if (interferes) problem.interference = interference;
  return problem;
}

inline Plan make_plan(const StepGraph& graph, const Costs& costs, Policy policy, std::string_view name, int streams,
                      int capacity, bool oversubscribes = false) {
  return scheduler::make_plan(make_problem(graph, costs, streams, capacity, oversubscribes), policy, name);
}

}  // namespace braid::scheduler::testing
