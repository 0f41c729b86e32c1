#pragma once
// Steps for property tests: a graph as a list of small descriptions, of which every sublist is a graph as well. So
// rapidcheck can shrink a failing step to a minimal one, by dropping nodes and making numbers smaller, and print it.

#include <rapidcheck.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {

struct NodeDescription {
  enum Kind { compute, view, update, kinds };
  int kind = compute;
  std::vector<int> inputs;  ///< each counts back from the newest value that may be read
  int bytes = 0;            ///< size of its output, in units of 100 bytes
  bool in_place = false;    ///< may write over its first input
  bool kept = false;
  int width = 1;  ///< its only implementation, or the narrower of two if it is moldable
  bool moldable = false;
  int duration = 0;    ///< microseconds
  int workspace = 0;   ///< in units of 100 bytes
  bool sends = false;  ///< over the link

  friend std::ostream& operator<<(std::ostream& out, const NodeDescription& node) {
    constexpr const char* kNames[] = {"compute", "view", "update"};
    out << "\n  " << kNames[node.kind] << "(";
    for (const int input : node.inputs) out << " -" << input;
    out << " ) bytes=" << 100 * node.bytes << " width=" << node.width << (node.moldable ? "+1" : "")
        << " us=" << node.duration << " workspace=" << 100 * node.workspace;
    return out << (node.sends ? " sends" : "") << (node.in_place ? " in place" : "") << (node.kept ? " kept" : "");
  }
};

struct StepDescription {
  std::vector<NodeDescription> nodes;
  int streams = 1;
  int capacity = 1;
  bool oversubscribes = false;
  std::vector<int> factors;  ///< interference between three kinds of nodes, percent; repeated to nine of them

  friend std::ostream& operator<<(std::ostream& out, const StepDescription& step) {
    out << step.streams << " streams, capacity " << step.capacity << (step.oversubscribes ? ", oversubscribed" : "");
    for (const int factor : step.factors) out << ' ' << factor << " %";
    out << ", values: input, parameter, then";
    for (const NodeDescription& node : step.nodes) out << node;
    return out;
  }
};

/// The step that a description stands for: an input and a parameter first, then a node for each.
inline RandomStep make_step(const StepDescription& description) {
  RandomStep step;
  step.capacity = description.capacity;
  ValueId parameter = kNoValue;
  std::vector<ValueId> readable{step.graph.add_input(bytes_desc(300))};
  readable.push_back(parameter = step.graph.add_persistent(bytes_desc(500), ValueKind::parameter, 0));
  for (const NodeDescription& node : description.nodes) {
    std::vector<ValueId> inputs;
    for (const int back : node.inputs) inputs.push_back(readable[readable.size() - 1 - back % readable.size()]);
    OutputDesc output = bytes_output(100 * node.bytes);
    const bool view = node.kind == NodeDescription::view && !inputs.empty();
    if (view) {
      output = {.dtype = DType::u8, .shape = step.graph.value(inputs[0]).desc.shape, .views = 0};
    } else if (node.kind == NodeDescription::update) {
      inputs.insert(inputs.begin(), parameter);
      output = {.dtype = DType::u8, .shape = Shape{500}, .overwrites = 0};
    } else if (node.in_place && !inputs.empty()) {
      output.reuses = 0;
    }
    const ValueId made = step.graph.add_node(std::make_shared<TestOp>(std::vector{output}), inputs);
    if (node.kind == NodeDescription::update) {  // no node may read the previous version, or a view of it
      std::erase_if(readable, [&](ValueId value) { return step.graph.value(value).root == parameter; });
      parameter = made;
    }
    readable.push_back(made);
    if (node.kept && step.graph.value(step.graph.value(made).root).slot < 0) step.graph.keep(made);

    const int width = std::min(node.width, description.capacity);
    const auto workspace = view ? 0 : 100 * static_cast<std::size_t>(node.workspace);
    const double duration = view ? 0 : node.duration;
    std::vector<Cost> implementations{{.width = view ? 1 : width, .duration = duration, .workspace_bytes = workspace}};
    if (node.moldable && !view && width < description.capacity) {
      implementations.push_back({.width = width + 1, .duration = 0.8 * duration, .workspace_bytes = 2 * workspace});
    }
    if (node.sends && !view) implementations = {{.width = 0, .duration = duration, .link = 0}};
    step.costs.add(implementations);
  }
  return step;
}

/// The problem that a description stands for, of the step that it stands for.
inline Problem make_problem(const StepDescription& description, const RandomStep& step) {
  constexpr int kKinds = 3;
  Problem problem =
      scheduler::make_problem(step.graph, step.costs, description.streams, step.capacity, description.oversubscribes);
  if (description.factors.empty()) return problem;
  for (NodeId id = 0; id < step.graph.node_count(); ++id) {
    for (int i = 0; i < static_cast<int>(step.costs.of(id).size()); ++i) {
      problem.interference.set_kind(id, i, (id + i) % kKinds);
    }
  }
  for (int i = 0; i < kKinds * kKinds; ++i) {
    problem.interference.set_factor(i / kKinds, i % kKinds,
                                    description.factors[i % description.factors.size()] / 100.0);
  }
  return problem;
}

}  // namespace braid::scheduler::testing

namespace rc {

template <>
struct Arbitrary<braid::scheduler::testing::NodeDescription> {
  static auto arbitrary() {
    using Node = braid::scheduler::testing::NodeDescription;
    const auto back = gen::inRange(0, 12);
    return gen::build<Node>(
        gen::set(&Node::kind, gen::weightedElement<int>({{8, Node::compute}, {1, Node::view}, {1, Node::update}})),
        gen::set(&Node::inputs, gen::resize(3, gen::container<std::vector<int>>(back))),
        gen::set(&Node::bytes, gen::inRange(0, 30)), gen::set(&Node::in_place),
        gen::set(&Node::kept, gen::map(gen::inRange(0, 8), [](int i) { return i == 7; })),
        gen::set(&Node::width, gen::inRange(1, 5)), gen::set(&Node::moldable),
        gen::set(&Node::duration, gen::inRange(0, 20)), gen::set(&Node::workspace, gen::inRange(0, 8)),
        gen::set(&Node::sends, gen::map(gen::inRange(0, 8), [](int i) { return i == 7; })));
  }
};

template <>
struct Arbitrary<braid::scheduler::testing::StepDescription> {
  static auto arbitrary() {
    using Step = braid::scheduler::testing::StepDescription;
    return gen::build<Step>(
        gen::set(&Step::nodes,
                 gen::scale(0.35, gen::arbitrary<std::vector<braid::scheduler::testing::NodeDescription>>())),
        gen::set(&Step::streams, gen::inRange(1, 6)), gen::set(&Step::capacity, gen::inRange(1, 9)),
        gen::set(&Step::oversubscribes),
        gen::set(&Step::factors, gen::resize(9, gen::container<std::vector<int>>(gen::inRange(30, 301)))));
  }
};

}  // namespace rc
