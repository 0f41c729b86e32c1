#include "scheduler/block.h"

#include <algorithm>
#include <set>

#include "core/graph/graph_copy.h"

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
        leaves_(step_.value_count()),
        copy_(step_) {
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
    RewrittenGraph block = copy_.finish();
    return {with_graph(problem_, std::move(block.graph), block.nodes), block.nodes};
  }

 private:
  NodeId producer(ValueId value) const { return step_.value(value).producer; }
  /// Whether a value depends on the block.
  bool late(ValueId value) const { return producer(value) != kNoNode && depends_[producer(value)]; }

  /// What is read outside of the block other than by what `rest_of_step` stands for.
  void find_results() {
    for (NodeId node = 0; node < step_.node_count(); ++node) {
      if (inside_[node]) continue;
      for (const ValueId value : step_.inputs(node)) leaves_[step_.value(value).root] = true;
    }
  }

  /// Adds what the node reads that the rest of the step computes from results of the block so far.
  void add_rest_of_step(NodeId node) {
    std::vector<ValueId> made;
    std::set<ValueId> needed;
    std::vector<OutputDesc> outputs;
    for (const ValueId value : step_.inputs(node)) {
      if (copy_.value(value) != kNoValue || !late(value) || inside_[producer(value)] || is_persistent(value)) continue;
      if (std::ranges::find(made, value) != made.end()) continue;
      made.push_back(value);
      const ValueDesc& desc = step_.value(value).desc;
      outputs.push_back({.dtype = desc.dtype, .shape = desc.shape});
      find_needed(producer(value), needed);
    }
    if (made.empty()) return;
    std::vector<ValueId> inputs;
    for (const ValueId value : needed) {
      leaves_[step_.value(value).root] = false;
      if (!copy_.graph().is_overwritten(copy_.value(value))) inputs.push_back(copy_.value(value));
    }
    const ValueKind kind = step_.value(made[0]).kind;
    const ValueId first = copy_.add(std::make_shared<RestOfStep>(outputs), inputs, kind, kNoNode);
    for (std::size_t i = 0; i < made.size(); ++i) copy_.set_value(made[i], first + static_cast<ValueId>(i));
  }

  /// Values of the block that an outside node depends on by other outside nodes alone.
  void find_needed(NodeId outside, std::set<ValueId>& needed) const {
    std::vector<bool> seen(outside + 1);
    std::vector<NodeId> open{outside};
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      for (const ValueId value : step_.inputs(node)) {
        if (!late(value)) continue;
        if (inside_[producer(value)]) {
          needed.insert(value);
        } else if (!seen[producer(value)]) {
          seen[producer(value)] = true;
          open.push_back(producer(value));
        }
      }
    }
  }

  void add_node(NodeId node) {
    for (const ValueId value : step_.inputs(node)) {
      if (copy_.value(value) == kNoValue) add_input(value);
    }
    copy_.add_node(node);
  }

  void keep_results(NodeId node) {
    for (int i = 0; i < step_.node(node).output_count; ++i) {
      const ValueId id = step_.output(node, i);
      const Value& value = step_.value(id);
      if (leaves_[id] && value.slot < 0 && value.root == id) copy_.graph().keep(copy_.value(id));
    }
  }

  bool is_persistent(ValueId id) const { return step_.value(id).slot >= 0 && step_.value(id).root == id; }

  /// Versions of a parameter that come from outside are separate parameters, so that the block may overwrite them.
  void add_input(ValueId id) {
    Value value = step_.value(id);
    value.slot = is_persistent(id) ? next_slot_++ : -1;
    if (value.slot < 0) value.kind = ValueKind::input;
    copy_.add_source(id, value);
  }

  const Problem& problem_;
  const StepGraph& step_;
  std::vector<bool> inside_, depends_;  // per node
  std::vector<bool> leaves_;            // per value: whether it is kept in the block alone
  std::int32_t next_slot_ = 0;
  GraphCopy copy_;  // the block's
};

}  // namespace

Block extract_block(const Problem& step, std::span<const NodeId> nodes) { return Extraction(step, nodes).run(nodes); }

}  // namespace braid::scheduler
