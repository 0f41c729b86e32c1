#include "runtime/compile/ranks/pipeline.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "core/comm/collective_call.h"
#include "ops/collective/collective.h"
#include "ops/layout/reshape.h"
#include "ops/layout/strided_copy.h"

namespace braid {

namespace {

using scheduler::Pass;

/// Whether an op only selects rows, or gives them a shape.
bool is_rows(const Op& op) {
  return dynamic_cast<const ops::ShardRows*>(&op) != nullptr || dynamic_cast<const ops::Window*>(&op) != nullptr ||
         dynamic_cast<const ops::Reshape*>(&op) != nullptr;
}

/// Nodes that a stage runs one after another.
struct Item {
  std::int16_t stage = 0;
  std::vector<NodeId> nodes = {};
  bool is_task = false;  // of a micro-batch
};

/// Adds the parts of a sum as soon as shards have made them, along the tree of exact sums: of 16 gradients, at most 7
/// are alive at once. One sum at the end would read each of them only once, but keep them all until then.
class IncrementalSums {
 public:
  explicit IncrementalSums(const StepGraph& divided) : divided_(divided), copy_(divided) {}

  RewrittenGraph run() {
    copy_.in_order([&](NodeId id) {
      const auto* sum = dynamic_cast<const ops::AllReduce*>(divided_.node(id).op.get());
      if (sum == nullptr || sum->attributes().divisors.size() > 1) return copy_.add_node(id);
      const std::vector<ValueId> leaves = copy_.values(divided_.inputs(id)), parts = summands(leaves, id);
      return copy_.add_node(id, parts, op_for(parts.size(), sum->attributes().divisors.front()));
    });
    return copy_.finish();
  }

 private:
  static OpPtr op_for(std::size_t leaves, std::int64_t divisor) {
    return std::make_shared<ops::AllReduce>(
        ops::AllReduceAttributes{{}, static_cast<std::int64_t>(leaves), true, {divisor}});
  }
  /// At most four sums of subtrees, which a node that adds them takes for leaves.
  std::vector<ValueId> summands(std::span<const ValueId> leaves, NodeId made_of) {
    const std::size_t count = leaves.size();
    if (count <= 4) return {leaves.begin(), leaves.end()};
    const auto left = static_cast<std::size_t>(ops::left_leaves(static_cast<std::int64_t>(count)));
    const bool in_quarters = 2 * left == count && count >= 16;
    std::vector<ValueId> sums;
    for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
      end = in_quarters ? begin + count / 4 : begin == 0 ? left : count;
      sums.push_back(sum_of(leaves.subspan(begin, end - begin), made_of));
    }
    return sums;
  }
  ValueId sum_of(std::span<const ValueId> leaves, NodeId made_of) {
    if (leaves.size() == 1) return leaves.front();
    const std::vector<ValueId> parts = summands(leaves, made_of);
    const Value& first = copy_.graph().value(leaves.front());
    const ValueId sum = copy_.add(op_for(parts.size(), 1), parts, first.kind, made_of);
    copy_.graph().assign(copy_.graph().node_count() - 1, divided_.node(made_of).stage, shard_of(leaves.back()));
    return sum;
  }
  /// The shard that makes a leaf, which a cast may follow.
  std::int16_t shard_of(ValueId leaf) {
    const StepGraph& graph = copy_.graph();
    NodeId node = graph.value(leaf).producer;
    while (node != kNoNode && graph.node(node).shard == Node::kNoShard && graph.node(node).input_count > 0) {
      node = graph.value(graph.inputs(node).front()).producer;
    }
    return node == kNoNode ? Node::kNoShard : graph.node(node).shard;
  }

  const StepGraph& divided_;
  GraphCopy copy_;
};

class PipelineDivider {
 public:
  PipelineDivider(const StepGraph& recorded, const RewrittenGraph& divided, const PipelineSetting& setting)
      : divided_(divided),
        graph_(divided.graph),
        setting_(setting),
        is_everywhere_(graph_.node_count()),
        phase_(graph_.node_count()),
        pass_(phase_.size()),
        readers_(graph_.value_count()) {
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      const auto inputs = graph_.inputs(id);
      for (const ValueId input : inputs) readers_[input].push_back(id);
      const bool are_everywhere =
          std::ranges::all_of(inputs, [&](ValueId input) { return owner(input) == kEveryStage; });
      is_everywhere_[id] = inputs.empty() || (are_everywhere && is_rows(*graph_.node(id).op));
    }
    find_phases();
    find_passes();
    find_crossings(recorded);
  }

  Pipelined run() {
    Pipelined result;
    result.order = scheduler::pipeline_order(setting_.order, stage_times(), setting_.micro_batches, has_backward_);
    const std::vector<Item> items = in_order(result.order);
    for (std::size_t stage = 0; stage < setting_.stages; ++stage) {
      result.stages.push_back(composed(divided_, stage_graph(static_cast<std::int16_t>(stage), items)));
    }
    return result;
  }

 private:
  static constexpr std::int16_t kBefore = -1, kAfter = -2;  // all micro-batches; phases of others are their numbers

  NodeId producer(ValueId value) const { return graph_.value(value).producer; }
  std::int16_t stage(NodeId node) const { return graph_.node(node).stage; }
  /// Nodes without inputs, and rows of the step's inputs, are made on every stage that needs them. What is computed
  /// from inputs is not: ranks may have other ones.
  bool is_everywhere(NodeId node) const { return is_everywhere_[node]; }
  /// Whether a value is there on every stage, without messages.
  bool is_at_hand(ValueId value) const { return producer(value) == kNoNode || is_everywhere(producer(value)); }

  /// Which micro-batch a node belongs to: that of its shard, else of its inputs, else of its readers.
  void find_phases() {
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      std::int16_t& phase = phase_[id];
      phase = graph_.node(id).shard;
      const bool is_given = phase != Node::kNoShard;
      for (const ValueId input : graph_.inputs(id)) {
        if (is_at_hand(input)) continue;
        const std::int16_t its = phase_[producer(input)];
        if (its == kBefore || its == phase || (is_given && 0 <= its && its < phase)) continue;
        BRAID_CHECK(!is_given, Error, "[pipeline] '", graph_.node(id).op->name(), "' of a micro-batch reads what '",
                    graph_.node(producer(input)).op->name(), "' computes from ",
                    its == kAfter ? "all of them" : "a later one", ": a pipeline cannot run this step");
        phase = phase == kBefore ? its : kAfter;
      }
    }
    for (NodeId id = graph_.node_count() - 1; id >= 0; --id) {
      if (phase_[id] != kBefore) continue;
      std::set<std::int16_t> its;
      for (int i = 0; i < graph_.node(id).output_count; ++i) {
        for (const NodeId reader : readers_[graph_.output(id, i)]) its.insert(phase_[reader]);
      }
      if (its.size() == 1) phase_[id] = *its.begin();
    }
  }

  /// Gradients that another stage waits for are of the backward pass, others of weights.
  void find_passes() {
    std::vector<bool> crosses(phase_.size());
    for (NodeId id = graph_.node_count() - 1; id >= 0; --id) {
      for (const ValueId input : graph_.inputs(id)) {
        const NodeId before = producer(input);
        if (is_at_hand(input) || phase_[before] != phase_[id] || phase_[id] < 0) continue;
        if (crosses[id] || stage(before) != stage(id)) crosses[before] = true;
      }
    }
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      if (phase_[id] < 0) continue;
      bool is_backward = graph_.value(graph_.node(id).first_output).kind == ValueKind::gradient;
      for (const ValueId input : graph_.inputs(id)) {
        const NodeId before = producer(input);
        is_backward |= !is_at_hand(input) && phase_[before] >= 0 && pass_[before] != Pass::forward;
      }
      has_backward_ |= is_backward;
      pass_[id] = !is_backward ? Pass::forward : crosses[id] ? Pass::backward : Pass::weights;
    }
  }

  /// The stages that each value is sent to.
  void find_crossings(const StepGraph& recorded) {
    std::set<std::int16_t> all;
    for (std::size_t s = 0; s < setting_.stages; ++s) all.insert(static_cast<std::int16_t>(s));
    std::vector<bool> read(recorded.value_count());
    for (const NodeId id : recorded.launched_nodes()) {
      for (const ValueId input : recorded.inputs(id)) read[recorded.value(input).root] = true;
    }
    for (ValueId id = 0; id < recorded.value_count(); ++id) {
      const Value& value = recorded.value(id);
      const bool is_result = value.slot < 0 && value.producer != kNoNode &&
                             (recorded.value(value.root).kept || !read[value.root] || value.desc.shape.size() == 1);
      const ValueId here = divided_.value(id);
      if (!is_result || here == kNoValue || producer(here) == kNoNode) continue;
      results_.push_back(here);
      if (!is_everywhere(producer(here))) crossings_[here] = all;
    }
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      for (const NodeId reader : readers_[id]) {
        const std::int16_t own = owner(id);
        if (own != kEveryStage && stage(reader) != own) crossings_[id].insert(stage(reader));
      }
      if (const auto found = crossings_.find(id); found != crossings_.end()) found->second.erase(owner(id));
    }
  }

  /// The stage that has a value.
  static constexpr std::int16_t kEveryStage = -1;
  std::int16_t owner(ValueId id) const {
    const Value& value = graph_.value(id);
    if (value.producer != kNoNode) return is_everywhere(value.producer) ? kEveryStage : stage(value.producer);
    return value.slot < 0 ? kEveryStage : setting_.owner(value.slot);
  }

  std::vector<scheduler::StageTimes> stage_times() const {
    std::vector<scheduler::StageTimes> times(setting_.stages);
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      if (phase_[id] < 0) continue;
      scheduler::StageTimes& its = times[stage(id)];
      double& sum = pass_[id] == Pass::forward ? its.forward : pass_[id] == Pass::backward ? its.backward : its.weights;
      sum += setting_.microseconds[id] / setting_.micro_batches;
    }
    for (const auto& [value, stages] : crossings_) {
      const NodeId from = producer(value);
      if (from == kNoNode || phase_[from] < 0 || pass_[from] != Pass::forward) continue;
      const Communication message{.exchanged =
                                      Message{.bytes = static_cast<std::int64_t>(graph_.value(value).bytes())}};
      times[stage(from)].message += 1e6 * seconds(message, setting_.link) / setting_.micro_batches;
    }
    return times;
  }

  /// All nodes of all stages in a common order.
  std::vector<Item> in_order(const scheduler::PipelineOrder& order) const {
    std::map<std::tuple<std::int16_t, int, Pass>, std::vector<NodeId>> tasks;
    std::vector<Item> items, after;
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      const std::int16_t phase = phase_[id];
      if (is_everywhere(id)) continue;
      if (phase < 0) {
        (phase == kBefore ? items : after).push_back({stage(id), {id}});
        continue;
      }
      Pass pass = pass_[id];
      if (pass == Pass::weights && !order.splits_backward) pass = Pass::backward;
      tasks[{stage(id), phase, pass}].push_back(id);
    }
    for (const scheduler::PipelineTask& task : order.tasks) {
      const auto its = static_cast<std::int16_t>(task.stage);
      items.push_back({its, std::move(tasks[{its, task.micro_batch, task.pass}]), true});
    }
    std::ranges::move(after, std::back_inserter(items));
    return items;
  }

  RewrittenGraph stage_graph(std::int16_t own, const std::vector<Item>& items) const {
    GraphCopy copy(graph_);
    std::int64_t messages = 0;  // of all stages
    NodeId last_message = kNoNode;
    std::vector<std::pair<NodeId, NodeId>> tasks;  // nodes of this stage [begin, end)
    const auto newest = [&] { return copy.graph().node_count() - 1; };
    const auto exchange = [&](ValueId value, std::int16_t from, NodeId made_of) {
      const auto found = crossings_.find(value);
      if (found == crossings_.end()) return;
      for (const std::int16_t to : found->second) {
        const std::int64_t tag = messages++ % kTags;
        const ValueKind kind = graph_.value(value).kind;
        if (from == own) {
          copy.add(std::make_shared<ops::Send>(to, tag), {copy.value(value)}, kind, made_of);
        } else if (to == own) {
          const bool is_gradient = kind == ValueKind::gradient;
          copy.set_value(value, copy.add(std::make_shared<ops::Receive>(from, tag, graph_.value(value).desc), {},
                                         is_gradient ? kind : ValueKind::activation, made_of));
        } else {
          continue;
        }
        if (last_message != kNoNode) copy.graph().run_after(newest(), last_message);
        last_message = newest();
      }
    };
    const std::function<void(ValueId)> make_ready = [&](ValueId value) {
      if (copy.value(value) != kNoValue) return;
      if (producer(value) == kNoNode) {
        copy.add_source(value);
        return;
      }
      BRAID_CHECK(is_everywhere(producer(value)), PlanError, "[pipeline] stage ", own, " needs the output of '",
                  graph_.node(producer(value)).op->name(), "', a node of stage ", stage(producer(value)),
                  ", before it is computed");
      for (const ValueId input : graph_.inputs(producer(value))) make_ready(input);
      copy.add_node(producer(value));
    };
    for (const auto& [value, stages] : crossings_) {  // tensors that several stages read
      if (producer(value) != kNoNode) continue;
      if (owner(value) == own) make_ready(value);
      exchange(value, owner(value), readers_[value].front());
    }
    for (const Item& item : items) {
      const NodeId begin = copy.graph().node_count();
      for (const NodeId id : item.nodes) {
        if (item.stage != own) break;
        for (const ValueId input : graph_.inputs(id)) make_ready(input);
        copy.add_node(id);
      }
      if (item.is_task && copy.graph().node_count() > begin) tasks.emplace_back(begin, copy.graph().node_count());
      for (const NodeId id : item.nodes) {
        for (int i = 0; i < graph_.node(id).output_count; ++i) exchange(graph_.output(id, i), item.stage, id);
      }
    }
    for (const ValueId value : results_) {
      make_ready(value);
      copy.graph().keep(copy.value(value));
    }
    run_in_turn(copy.graph(), tasks);
    return copy.finish();
  }

  /// Orders each task after the one before it.
  static void run_in_turn(StepGraph& graph, const std::vector<std::pair<NodeId, NodeId>>& tasks) {
    const Edges edges = graph.edges();
    std::vector<NodeId> ends;  // nodes of the task before that no other node of it follows
    for (const auto& task : tasks) {
      const NodeId begin = task.first, end = task.second;
      const auto is_inside = [&](NodeId node) { return begin <= node && node < end; };
      std::vector<NodeId> its_ends;
      for (NodeId id = begin; id < end; ++id) {
        if (graph.node(id).is_view) continue;
        if (std::ranges::none_of(edges.predecessors(id), is_inside)) {
          for (const NodeId before : ends) graph.run_after(id, before);
        }
        if (std::ranges::none_of(edges.successors(id), is_inside)) its_ends.push_back(id);
      }
      if (!its_ends.empty()) ends = std::move(its_ends);
    }
  }

  /// MPI has at least as many tags.
  static constexpr std::int64_t kTags = 32768;

  const RewrittenGraph& divided_;
  const StepGraph& graph_;
  const PipelineSetting& setting_;
  std::vector<bool> is_everywhere_;  // per node
  std::vector<std::int16_t> phase_;  // likewise
  std::vector<Pass> pass_;           // per node of a micro-batch
  bool has_backward_ = false;
  std::vector<std::vector<NodeId>> readers_;             // per value
  std::map<ValueId, std::set<std::int16_t>> crossings_;  // stages that a value is sent to
  std::vector<ValueId> results_;                         // values that all stages keep
};

}  // namespace

RewrittenGraph with_incremental_sums(const StepGraph& divided) { return IncrementalSums(divided).run(); }

Pipelined pipelined(const StepGraph& recorded, const RewrittenGraph& divided, const PipelineSetting& setting) {
  return PipelineDivider(recorded, divided, setting).run();
}

}  // namespace braid
