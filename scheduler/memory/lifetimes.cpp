#include "scheduler/memory/lifetimes.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace braid::scheduler {
namespace {

constexpr std::int32_t kEnd = std::numeric_limits<std::int32_t>::max();

}  // namespace

Lifetimes::Lifetimes(const StepGraph& graph, const Plan& plan)
    : graph_(graph), order_(plan.commands, graph.node_count()), streams_(order_.streams()) {
  predict(plan);
  collect_uses();
  form_blocks();
  for (std::int32_t b = 0; b < static_cast<std::int32_t>(blocks_.size()); ++b) find_lifetime(b);
}

/// Predicted times are forced to agree with the order of the commands.
void Lifetimes::predict(const Plan& plan) {
  start_.resize(graph_.node_count());
  finish_.resize(graph_.node_count());
  for (const NodeId node : order_.sequence()) {
    const Placement& predicted = plan.placements[node];
    double ready = predicted.start;
    for (const NodeId before : order_.followed(node)) ready = std::max(ready, finish_[before]);
    start_[node].time = ready;
    finish_[node] = std::max(ready, predicted.finish);
    by_rank_.push_back(node);
  }
  std::ranges::stable_sort(by_rank_, {}, [&](NodeId node) { return start_[node].time; });
  for (std::int32_t rank = 0; rank < ranks(); ++rank) start_[by_rank_[rank]].rank = rank;
}

void Lifetimes::collect_uses() {
  uses_.assign(graph_.value_count() * streams_, 0);
  for (const NodeId id : graph_.launched_nodes()) {
    const Node& node = graph_.node(id);
    BRAID_CHECK(order_.stream(id) >= 0, PlanError, "[memory] node ", id, " '", node.op->name(), "' is never launched");
    const auto use = [&](ValueId value) {
      std::int32_t& uses = uses_[graph_.value(value).root * streams_ + order_.stream(id)];
      uses = std::max(uses, order_.position(id) + 1);
    };
    for (const ValueId input : graph_.inputs(node)) use(input);
    for (int i = 0; i < node.output_count; ++i) use(graph_.output(id, i));
  }
}

void Lifetimes::form_blocks() {
  block_of_.assign(graph_.value_count(), -1);
  for (ValueId id = 0; id < graph_.value_count(); ++id) {
    if (!in_arena(id)) continue;
    const Value& value = graph_.value(id);
    if (may_take_over(id)) {
      block_of_[id] = block_of_[value.reuses];
    } else {
      block_of_[id] = static_cast<std::int32_t>(blocks_.size());
      blocks_.push_back({.bytes = arena_aligned(value.bytes()), .first = value.producer});
      block_uses_.resize(block_uses_.size() + streams_);
    }
    blocks_[block_of_[id]].kept |= value.kept;
    // Only the uses of the newest value count: they come after all uses of earlier ones.
    std::copy_n(uses_.begin() + id * streams_, streams_, block_uses_.begin() + block_of_[id] * streams_);
  }
}

/// Whether a value may be written over the one that it says it can reuse: its producer reads that one exactly once and
/// all other readers have finished. Not worthwhile where most of the bytes would be unused.
bool Lifetimes::may_take_over(ValueId id) const {
  const Value& value = graph_.value(id);
  const ValueId old = value.reuses;
  if (old == kNoValue || !in_arena(old) || graph_.value(old).kept) return false;
  if (value.bytes() > graph_.value(old).bytes() || 2 * value.bytes() < graph_.value(old).bytes()) return false;

  const NodeId node = value.producer;
  const auto reads_old = [&](ValueId input) { return graph_.value(input).root == old; };
  if (std::ranges::count_if(graph_.inputs(node), reads_old) != 1) return false;
  for (ValueId other = graph_.node(node).first_output; other < id; ++other) {
    if (block_of_[other] == block_of_[old]) return false;  // another output took it already
  }
  for (std::size_t s = 0; s < streams_; ++s) {
    const bool own = order_.stream(node) == static_cast<std::int32_t>(s);
    if (uses_[old * streams_ + s] > order_.finished(node, s) + (own ? 1 : 0)) return false;
  }
  return true;
}

/// Finds for each stream how many of its nodes may run while the block is in use: all up to the first that starts after
/// every use.
void Lifetimes::find_lifetime(std::int32_t b) {
  ValueBlock& block = blocks_[b];
  block.begin = block.end = block.first == kNoNode ? -1 : start_[block.first].rank;
  for (std::size_t s = 0; s < streams_; ++s) {
    const auto in_use = [&](NodeId node) {
      for (std::size_t t = 0; t < streams_; ++t) {
        if (order_.finished(node, t) < block_uses_[b * streams_ + t]) return true;
      }
      return false;
    };
    const auto count = std::ranges::partition_point(order_.launched(s), in_use) - order_.launched(s).begin();
    concurrent_.push_back(block.kept ? kEnd : static_cast<std::int32_t>(count));
    if (count > 0) block.end = std::max(block.end, start_[order_.launched(s)[count - 1]].rank);
  }
  if (block.kept) block.end = kEnd;
}

/// Whether every use of `a` has finished before `b` is first written.
bool Lifetimes::before(std::int32_t a, std::int32_t b) const {
  const NodeId first = blocks_[b].first;
  return first != kNoNode && order_.position(first) >= concurrent_[a * streams_ + order_.stream(first)];
}

bool Lifetimes::conflict(std::int32_t a, std::int32_t b) const {
  const bool apart = blocks_[a].end < blocks_[b].begin || blocks_[b].end < blocks_[a].begin;  // the usual case, cheap
  return !apart && !before(a, b) && !before(b, a);
}

Lifetimes::Peak Lifetimes::peak() const {
  constexpr Moment kNever{std::numeric_limits<double>::infinity(), kEnd};
  std::vector<Moment> last_use(blocks_.size());
  const auto use = [&](ValueId value, NodeId node) {
    const std::int32_t block = block_of(value);
    if (block >= 0) last_use[block] = std::max(last_use[block], {finish_[node], start_[node].rank});
  };
  for (const NodeId node : by_rank_) {
    for (const ValueId input : graph_.inputs(node)) use(input, node);
    for (int i = 0; i < graph_.node(node).output_count; ++i) use(graph_.output(node, i), node);
  }

  std::vector<std::tuple<Moment, bool, std::int64_t>> changes;  // at equal times, blocks begin before others end
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const ValueBlock& block = blocks_[b];
    if (block.kept) last_use[b] = kNever;
    changes.emplace_back(block.first == kNoNode ? Moment{} : start_[block.first], false, block.bytes);
    changes.emplace_back(last_use[b], true, -block.bytes);
  }
  std::ranges::sort(changes);
  std::int64_t live = 0, most = 0;
  Moment at;
  for (const auto& [time, ends, change] : changes) {
    if ((live += change) > most) most = live, at = time;
  }

  std::vector<ValueId> newest(blocks_.size(), kNoValue);  // newest value of each block in use then
  for (ValueId value = 0; value < graph_.value_count(); ++value) {
    const NodeId producer = graph_.value(value).producer;
    const std::int32_t block = block_of_[value];
    if (block < 0 || last_use[block] < at || (producer != kNoNode && start_[producer].rank > at.rank)) continue;
    newest[block] = value;
  }
  std::erase(newest, kNoValue);
  return {most, std::move(newest)};
}

}  // namespace braid::scheduler
