#include "scheduler/show/block.h"

#include <algorithm>

namespace braid::scheduler {
namespace {

struct RestOfStepAttributes {
  std::vector<OutputDesc> outputs;
  static constexpr std::string_view kNames[] = {"outputs"};
};

class RestOfStep final : public OpWith<RestOfStep, RestOfStepAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return kRestOfStep; }
  void infer(std::span<const ValueDesc>, std::vector<OutputDesc>& outputs) const override {
    outputs.insert(outputs.end(), attributes_.outputs.begin(), attributes_.outputs.end());
  }
  Work work(std::span<const ValueDesc>, std::span<const ValueDesc>) const override { return {}; }
};

class Extraction {
 public:
  Extraction(const Problem& problem, std::span<const NodeId> nodes)
      : problem_(problem),
        step_(problem.graph),
        inside_(step_.node_count()),
        depends_(step_.node_count()),
        copy_(step_.value_count(), kNoValue),
        leaves_(step_.value_count()) {
    for (const NodeId node : nodes) inside_[node] = true;
    for (NodeId node = 0; node < step_.node_count(); ++node) {
      depends_[node] = inside_[node] || std::ranges::any_of(step_.inputs(node), [&](ValueId v) { return late(v); });
    }
  }

  Block run(std::span<const NodeId> nodes) {
    find_results();
    for (const NodeId node : nodes) {
      add_rest_of_step(node);
      add_node(node);
    }
    for (const NodeId node : nodes) keep_results(node);
    return {with_graph(problem_, std::move(graph_), origin_), origin_};
  }

 private:
  NodeId producer(ValueId value) const { return step_.value(value).producer; }
  /// Whether a value depends on the block.
  bool late(ValueId value) const { return producer(value) != kNoNode && depends_[producer(value)]; }

  /// Finds the values that are kept, or read outside the block by nodes other than those that `rest_of_step` stands
  /// for.
  void find_results() {
    for (ValueId id = 0; id < step_.value_count(); ++id) leaves_[id] = step_.value(id).kept;
    for (NodeId node = 0; node < step_.node_count(); ++node) {
      if (inside_[node]) continue;
      for (const ValueId value : step_.inputs(node)) leaves_[step_.value(value).root] = true;
    }
  }

  /// Whether the node reads anything that the rest of the step computes from results of the block so far.
  void add_rest_of_step(NodeId node) {
    std::vector<ValueId> made, needed;
    std::vector<OutputDesc> outputs;
    for (const ValueId value : step_.inputs(node)) {
      if (copy_[value] != kNoValue || !late(value) || inside_[producer(value)] || is_persistent(value)) continue;
      if (std::ranges::find(made, value) != made.end()) continue;
      made.push_back(value);
      const ValueDesc& desc = step_.value(value).desc;
      outputs.push_back({.dtype = desc.dtype, .shape = desc.shape});
      find_needed(producer(value), needed);
    }
    if (made.empty()) return;
    std::ranges::sort(needed);
    needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
    for (const ValueId value : needed) leaves_[step_.value(value).root] = step_.value(value).kept;
    std::vector<ValueId> inputs;
    for (const ValueId value : needed) {
      if (!graph_.is_overwritten(copy_[value])) inputs.push_back(copy_[value]);
    }
    const ValueId first = graph_.add_node(std::make_shared<RestOfStep>(outputs), inputs, step_.value(made[0]).kind);
    for (std::size_t i = 0; i < made.size(); ++i) copy_[made[i]] = first + static_cast<ValueId>(i);
    origin_.push_back(kNoNode);
  }

  /// Values of the block that an outside node depends on by other outside nodes alone.
  void find_needed(NodeId outside, std::vector<ValueId>& needed) const {
    std::vector<bool> seen(outside + 1);
    std::vector<NodeId> open{outside};
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      for (const ValueId value : step_.inputs(node)) {
        if (!late(value)) continue;
        if (inside_[producer(value)]) {
          needed.push_back(value);
        } else if (!seen[producer(value)]) {
          seen[producer(value)] = true;
          open.push_back(producer(value));
        }
      }
    }
  }

  void add_node(NodeId node) {
    const Node& original = step_.node(node);
    std::vector<ValueId> inputs;
    for (const ValueId value : step_.inputs(node)) {
      if (copy_[value] == kNoValue) copy_[value] = add_input(value);
      inputs.push_back(copy_[value]);
    }
    const ValueKind kind = step_.value(original.first_output).kind;
    const ValueId first = graph_.add_node(original.op, inputs, kind);
    for (int i = 0; i < original.output_count; ++i) copy_[original.first_output + i] = first + i;
    origin_.push_back(node);
  }

  void keep_results(NodeId node) {
    for (int i = 0; i < step_.node(node).output_count; ++i) {
      const ValueId id = step_.output(node, i);
      const Value& value = step_.value(id);
      if (leaves_[id] && value.slot < 0 && value.root == id) graph_.keep(copy_[id]);
    }
  }

  bool is_persistent(ValueId id) const { return step_.value(id).slot >= 0 && step_.value(id).root == id; }

  /// Versions of a parameter that come from outside are separate parameters, so that the block may overwrite them.
  ValueId add_input(ValueId id) {
    const Value& value = step_.value(id);
    if (!is_persistent(id)) return graph_.add_input(value.desc);
    return graph_.add_persistent(value.desc, value.kind, next_slot_++);
  }

  const Problem& problem_;
  const StepGraph& step_;
  std::vector<bool> inside_, depends_;  // per node
  std::vector<ValueId> copy_;           // per value: the same in the block
  std::vector<bool> leaves_;            // per value: whether it is kept in the block
  std::int32_t next_slot_ = 0;
  StepGraph graph_;  // the block's
  std::vector<NodeId> origin_;
};

}  // namespace

Block extract_block(const Problem& step, std::span<const NodeId> nodes) { return Extraction(step, nodes).run(nodes); }

}  // namespace braid::scheduler
