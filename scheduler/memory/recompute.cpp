#include "scheduler/memory/recompute.h"

#include <algorithm>
#include <limits>
#include <map>

#include "scheduler/memory/lifetimes.h"

namespace braid::scheduler {
namespace {

/// Whether a node belongs to a backward pass.
bool is_backward(const StepGraph& graph, NodeId node) {
  return graph.node(node).output_count > 0 && graph.value(graph.output(node, 0)).kind == ValueKind::gradient;
}

/// The values that a node reads when it is recomputed.
std::vector<ValueId> inputs_of_recomputation(const StepGraph& graph, NodeId node) {
  const auto inputs = graph.inputs(node);
  std::vector<ValueId> list(inputs.begin(), inputs.end());
  if (const std::optional<Recomputation> rule = graph.node(node).op->recompute(); rule.has_value()) {
    for (const auto& [input, output] : rule->inputs_from_outputs) list[input] = graph.output(node, output);
  }
  return list;
}

/// Copies a graph, and adds the nodes that recompute values for the backward pass.
class RecomputingCopy {
 public:
  RecomputingCopy(const StepGraph& graph, std::span<const ValueId> values)
      : graph_(graph), chosen_(graph.value_count()), recomputed_(graph.value_count(), kNoValue), copy_(graph) {
    for (const ValueId value : values) {
      BRAID_CHECK(can_recompute(graph, value), Error, "[recompute] value ", value, " of shape ",
                  graph.value(value).desc.shape, " cannot be recomputed");
      chosen_[value] = true;
    }
  }

  RewrittenGraph run() {
    copy_.in_order([this](NodeId id) {
      if (!is_backward(graph_, id)) return copy_.add_node(id);
      std::vector<ValueId> inputs;
      for (const ValueId input : graph_.inputs(id)) inputs.push_back(newest(input, latest_gradient(id)));
      return copy_.add_node(id, inputs);
    });
    return copy_.finish();
  }

 private:
  /// The last node here that makes a gradient for a recorded backward node. What is recomputed for that node runs
  /// after it: otherwise nothing would keep a scheduler from recomputing it in the forward pass.
  NodeId latest_gradient(NodeId reader) {
    NodeId latest = kNoNode;
    for (const ValueId input : graph_.inputs(reader)) {
      const Value& here = copy_.graph().value(copy_.value(input));
      if (here.kind == ValueKind::gradient) latest = std::max(latest, copy_.graph().value(here.root).producer);
    }
    return latest;
  }

  /// The value as backward nodes read it. The first call adds the nodes that recompute it, and its inputs.
  ValueId newest(ValueId value, NodeId after) {
    if (!chosen_[graph_.value(value).root]) return copy_.value(value);
    ValueId& recomputed = recomputed_[value];
    if (recomputed != kNoValue) return recomputed;
    const NodeId id = graph_.value(value).producer;
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : inputs_of_recomputation(graph_, id)) inputs.push_back(newest(input, after));
    const std::optional<Recomputation> rule = node.op->recompute();
    const bool other = rule.has_value() && rule->op != nullptr;
    const ValueId output = copy_.add(other ? rule->op : node.op, inputs, graph_.value(value).kind, id);
    StepGraph& graph = copy_.graph();
    if (after != kNoNode && !node.is_view) graph.run_after(graph.node_count() - 1, after);
    const int outputs = graph.nodes().back().output_count;
    for (int i = 0; i < outputs; ++i) recomputed_[node.first_output + i] = output + i;
    return recomputed;
  }

  const StepGraph& graph_;
  std::vector<bool> chosen_;         // per value
  std::vector<ValueId> recomputed_;  // per value: the same as recomputed; kNoValue if it is not
  GraphCopy copy_;
};

constexpr std::int32_t kNeverUsed = std::numeric_limits<std::int32_t>::max();

/// When a value of the recorded graph is in use. Times are places in the order in which the plan starts nodes.
struct Uses {
  std::int32_t begin = 0;
  std::int32_t last_forward = 0;         ///< or when it is made, if nothing reads it in the forward pass
  std::int32_t first_late = kNeverUsed;  ///< first and last read by a backward or a recomputed node
  std::int32_t last_late = -1;
  bool chosen = false;  ///< not in use between the forward pass and the first late read

  std::int32_t last() const { return std::max(last_forward, last_late); }
  bool covers(std::int32_t time) const {
    if (time < begin || time > last()) return false;
    return !chosen || time <= last_forward || time >= first_late;
  }
};

/// Bytes of live values at every time.
class LiveBytes {
 public:
  explicit LiveBytes(std::size_t times) : bytes_(times) {}

  void add(std::int32_t begin, std::int32_t end, std::int64_t bytes) {
    for (std::int32_t time = begin; time <= end; ++time) bytes_[time] += bytes;
  }
  void add(const Uses& uses, std::int64_t bytes) {
    add(uses.begin, uses.chosen ? uses.last_forward : uses.last(), bytes);
    if (uses.chosen && uses.last_late >= 0)
      add(std::max(uses.first_late, uses.last_forward + 1), uses.last_late, bytes);
  }
  std::int32_t peak_time() const {
    return static_cast<std::int32_t>(std::ranges::max_element(bytes_) - bytes_.begin());
  }
  std::int64_t peak() const { return bytes_.empty() ? 0 : *std::ranges::max_element(bytes_); }

 private:
  std::vector<std::int64_t> bytes_;
};

class RecomputeChooser {
 public:
  RecomputeChooser(const StepGraph& graph, const Costs& costs, const RewrittenGraph& current, const Plan& plan,
                   std::vector<ValueId>& chosen)
      : graph_(graph), costs_(costs), chosen_(chosen), overwriter_(overwriters(graph)), live_bytes_(0) {
    measure(current.graph, plan);
    collect_uses(current);
    for (const ValueId value : chosen) uses_[value].chosen = true;
  }

  bool run(std::int64_t excess) {
    const std::size_t before = chosen_.size();
    const std::int64_t target = live_bytes_.peak() - excess;
    while (live_bytes_.peak() > target && choose_one()) {
    }
    return chosen_.size() > before;
  }

 private:
  /// The effect of choosing one value: when it and others are in use changes, and some nodes run again.
  struct Trial {
    std::map<ValueId, Uses> changes;
    double microseconds = 0;
    std::pair<bool, double> merit;  ///< the larger the better
  };

  std::int64_t bytes(ValueId id) const { return static_cast<std::int64_t>(graph_.value(id).bytes()); }

  /// When values are in use, in the current plan.
  void measure(const StepGraph& graph, const Plan& plan) {
    const Lifetimes lifetimes(graph, plan);
    for (NodeId id = 0; id < graph.node_count(); ++id) {
      time_.push_back(graph.node(id).is_view ? -1 : lifetimes.rank(id));
    }
    live_bytes_ = LiveBytes(lifetimes.ranks());
    for (const ValueBlock& block : lifetimes.blocks()) {
      live_bytes_.add(std::max(0, block.begin), std::min(block.end, lifetimes.ranks() - 1), block.bytes);
    }
  }

  void collect_uses(const RewrittenGraph& current) {
    const std::vector<NodeId> first = current.first_nodes();
    uses_.resize(graph_.value_count());
    first_backward_.assign(graph_.value_count(), kNeverUsed);
    for (const NodeId id : graph_.launched_nodes()) {
      const std::int32_t time = time_[first[id]];
      for (const ValueId input : graph_.inputs(id)) {
        const ValueId root = graph_.value(input).root;
        Uses& uses = uses_[root];
        if (is_backward(graph_, id)) {
          read_late(uses, time);
          first_backward_[root] = std::min(first_backward_[root], id);
        } else {
          uses.last_forward = std::max(uses.last_forward, time);
        }
      }
      for (int i = 0; i < graph_.node(id).output_count; ++i) {
        const ValueId output = graph_.output(id, i);
        uses_[output].begin = uses_[output].last_forward = time;
      }
    }
    for (NodeId id = 0; id < current.graph.node_count(); ++id) {
      const NodeId recorded = current.nodes[id];
      if (first[recorded] == id || current.graph.node(id).is_view) continue;
      for (const ValueId input : inputs_of_recomputation(graph_, recorded)) {
        read_late(uses_[graph_.value(input).root], time_[id]);
      }
    }
  }

  static void read_late(Uses& uses, std::int32_t time) {
    uses.first_late = std::min(uses.first_late, time);
    uses.last_late = std::max(uses.last_late, time);
  }

  /// Chooses the best value that lowers the bytes in use at the peak without making another peak. False if there is
  /// none.
  bool choose_one() {
    const std::int32_t time = live_bytes_.peak_time();
    const std::int64_t peak = live_bytes_.peak();
    std::vector<Trial> trials;
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const Uses& now = uses_[id];
      if (now.chosen || first_backward_[id] == kNeverUsed || !is_cheap_to_recompute(graph_, id)) continue;
      if (time <= now.last_forward || time >= now.first_late) continue;
      Trial trial;
      if (choose(id, first_backward_[id], trial) && weigh(trial, time)) trials.push_back(std::move(trial));
    }
    std::ranges::stable_sort(trials, std::ranges::greater(), &Trial::merit);
    for (Trial& trial : trials) {
      exchange(trial);
      if (live_bytes_.peak() <= peak) {
        for (const auto& [id, before] : trial.changes) {
          if (uses_[id].chosen && !before.chosen) chosen_.push_back(id);
        }
        return true;
      }
      exchange(trial);
    }
    return false;
  }

  /// Values that save more at this time than they add at others come first: that breaks up chains of values computed
  /// from one another. False if nothing is saved.
  bool weigh(Trial& trial, std::int32_t time) const {
    std::int64_t saved = 0, added = 0;
    for (const auto& [id, after] : trial.changes) {
      const Uses& before = uses_[id];
      if (before.covers(time)) saved += bytes(id);
      if (after.covers(time)) saved -= bytes(id);
      const bool longer = after.last() > before.last() || (before.chosen && after.first_late < before.first_late);
      if (longer && !after.covers(time)) added += bytes(id);
    }
    const bool worth = saved > added;
    trial.merit = {worth, static_cast<double>(worth ? saved - added : saved) / std::max(trial.microseconds, 1e-3)};
    return saved > 0;
  }

  /// Applies the changes of a trial, or reverts them.
  void exchange(Trial& trial) {
    for (auto& [id, other] : trial.changes) {
      live_bytes_.add(uses_[id], -bytes(id));
      live_bytes_.add(other, bytes(id));
      std::swap(uses_[id], other);
    }
  }

  Uses uses(ValueId id, const Trial& trial) const {
    const auto found = trial.changes.find(id);
    return found == trial.changes.end() ? uses_[id] : found->second;
  }

  /// Recomputes a value at its first late use, ahead of the recorded node `reader`. False if it cannot be.
  bool choose(ValueId id, NodeId reader, Trial& trial) const {
    Uses chosen = uses(id, trial);
    chosen.chosen = true;
    trial.changes[id] = chosen;
    trial.microseconds += costs_.fastest(graph_.value(id).producer);
    return need_inputs(id, reader, trial);
  }

  bool need_inputs(ValueId id, NodeId reader, Trial& trial) const {
    const std::int32_t time = uses(id, trial).first_late;
    return std::ranges::all_of(inputs_of_recomputation(graph_, graph_.value(id).producer),
                               [&](ValueId input) { return need(graph_.value(input).root, time, reader, trial); });
  }

  /// Makes a value available at a time, ahead of the recorded node `reader`: as it is, recomputed, or kept until then.
  bool need(ValueId id, std::int32_t time, NodeId reader, Trial& trial) const {
    const Value& value = graph_.value(id);
    if (value.slot >= 0) return overwriter_[id] == kNoNode || overwriter_[id] > reader;
    if (value.kept) return true;
    const Uses before = uses(id, trial);
    Uses after = before;
    read_late(after, time);
    trial.changes[id] = after;
    if (before.chosen) return after.first_late == before.first_late || need_inputs(id, reader, trial);
    if (before.last() >= time || !is_cheap_to_recompute(graph_, id)) return true;
    Trial extended = trial;
    if (choose(id, reader, extended)) trial = std::move(extended);
    return true;
  }

  const StepGraph& graph_;
  const Costs& costs_;
  std::vector<ValueId>& chosen_;
  const std::vector<NodeId> overwriter_;  // per recorded value
  std::vector<std::int32_t> time_;        // per node of the planned graph; -1 for views
  LiveBytes live_bytes_;
  std::vector<Uses> uses_;              // per recorded value
  std::vector<NodeId> first_backward_;  // per recorded value: its first backward reader
};

}  // namespace

bool can_recompute(const StepGraph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.producer == kNoNode || value.root != id || value.slot >= 0 || value.kept) return false;
  if (value.kind != ValueKind::activation) return false;
  const Node& node = graph.node(value.producer);
  if (const std::optional<Recomputation> rule = node.op->recompute()) return id - node.first_output < rule->outputs;
  return std::ranges::all_of(graph.outputs(node), [](const Value& output) { return output.previous == kNoValue; });
}

bool is_cheap_to_recompute(const StepGraph& graph, ValueId id) {
  return can_recompute(graph, id) && graph.node(graph.value(id).producer).op->recompute().has_value();
}

std::vector<ValueId> marked_values(const StepGraph& graph) {
  std::vector<ValueId> marked;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (graph.value(id).recomputed && can_recompute(graph, id)) marked.push_back(id);
  }
  return marked;
}

RewrittenGraph recompute(const StepGraph& graph, std::span<const ValueId> values) {
  return RecomputingCopy(graph, values).run();
}

bool choose_recomputed(const StepGraph& graph, const Costs& costs, const RewrittenGraph& current, const Plan& plan,
                       std::int64_t excess, std::vector<ValueId>& chosen) {
  return RecomputeChooser(graph, costs, current, plan, chosen).run(excess);
}

}  // namespace braid::scheduler
