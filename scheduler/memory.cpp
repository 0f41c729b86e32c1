// Every value gets an address in one arena, before anything runs. Two values may share bytes only if all uses of one
// are over before the other is written, and "over" is read from the partial order of the command lists (stream order
// and waits), never from the order of issue: that would be a race as soon as there are two streams.
//
// Placement is dynamic storage allocation with all lifetimes known. A few simple methods are tried and the smallest
// arena is kept: the best-fitting gap in order of time, as an allocator would, and the lowest gap that nothing in
// conflict occupies in order of time, of size (Pisarchyk and Lee, "Efficient memory management for deep neural net
// inference", 2020) and of size times lifetime.

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "core/align.h"
#include "scheduler/plan.h"

namespace braid {
namespace {

/// Up to this many blocks all pairs are compared, in several orders: some ten milliseconds for 3,000 blocks.
constexpr std::size_t kThoroughBlocks = 8000;
constexpr std::int32_t kEnd = std::numeric_limits<std::int32_t>::max();

std::int64_t aligned(std::int64_t bytes) { return align_up(bytes, kArenaAlignment); }

/// What the command lists say about the order of nodes.
struct Order {
  std::vector<std::vector<NodeId>> nodes;      // per stream, as launched
  std::vector<std::int32_t> stream, position;  // per node; stream -1 if it is not launched
  std::vector<std::int32_t> done;  // node × stream: how many nodes of the stream are over when the node starts
  std::vector<std::int32_t> time;  // per node: rank by predicted start; ascending along every stream

  std::int32_t streams() const { return static_cast<std::int32_t>(nodes.size()); }
  std::int32_t over(NodeId node, int s) const { return done[std::size_t(node) * nodes.size() + s]; }
};

/// Follows the command lists and keeps for every stream and event what is over by then (vector clocks).
Order replay(const StepGraph& graph, const Plan& plan) {
  const std::size_t streams = plan.streams.size();
  Order order;
  order.nodes.resize(streams);
  order.stream.assign(graph.node_count(), -1);
  order.position.assign(graph.node_count(), -1);
  order.done.assign(graph.node_count() * streams, 0);

  std::vector<std::vector<std::int32_t>> known(streams, std::vector<std::int32_t>(streams));  // per stream
  std::vector<std::vector<std::int32_t>> recorded(plan.events);                               // per event
  std::vector<std::size_t> next(streams);
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t s = 0; s < streams; ++s) {
      for (; next[s] < plan.streams[s].size(); ++next[s], progress = true) {
        const auto [kind, index] = plan.streams[s][next[s]];
        if (kind == Command::Kind::record) {
          recorded[index] = known[s];
        } else if (kind == Command::Kind::wait) {
          if (recorded[index].empty()) break;
          for (std::size_t t = 0; t < streams; ++t) known[s][t] = std::max(known[s][t], recorded[index][t]);
        } else {
          order.stream[index] = static_cast<std::int32_t>(s);
          order.position[index] = known[s][s]++;
          std::ranges::copy(known[s], order.done.begin() + index * streams);
          --order.done[index * streams + s];
          order.nodes[s].push_back(index);
        }
      }
    }
  }
  for (std::size_t s = 0; s < streams; ++s) {
    BRAID_CHECK(next[s] == plan.streams[s].size(), PlanError, "[memory] stream ", s, " waits for ever at command ",
                next[s]);
  }
  return order;
}

/// Ranks nodes by predicted start. Only the order within each stream must be right, so predictions are forced to
/// ascend.
void rank_by_time(const Plan& plan, Order& order) {
  std::vector<std::pair<double, NodeId>> starts;
  for (const auto& nodes : order.nodes) {
    double latest = 0;
    for (const NodeId node : nodes) starts.emplace_back(latest = std::max(latest, plan.placements[node].start), node);
  }
  std::ranges::stable_sort(starts, {}, &std::pair<double, NodeId>::first);
  order.time.assign(order.stream.size(), -1);
  for (std::size_t i = 0; i < starts.size(); ++i) order.time[starts[i].second] = static_cast<std::int32_t>(i);
}

/// Values at one address: a root value and those that are written over it in place.
struct Block {
  std::int64_t bytes = 0;
  NodeId first = kNoNode;  ///< writes it first; kNoNode: the host, before the step starts
  bool kept = false;
  std::int32_t begin = 0;  ///< first and last time (Order::time) at which its bytes may be in use
  std::int32_t end = 0;
};

/// The free bytes below the highest address used so far.
class Gaps {
 public:
  std::int64_t top() const { return top_; }

  /// The lowest of the smallest gaps that hold so many bytes, or the top.
  std::int64_t take(std::int64_t bytes) {
    if (bytes == 0) return 0;
    const auto found = by_size_.lower_bound({bytes, 0});
    if (found == by_size_.end()) {
      top_ += bytes;
      return top_ - bytes;
    }
    const auto [size, offset] = *found;
    remove(by_offset_.find(offset));
    if (size > bytes) add(offset + bytes, size - bytes);
    return offset;
  }

  void give_back(std::int64_t offset, std::int64_t bytes) {
    if (bytes == 0) return;
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = remove(next);
    }
    if (next != by_offset_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        remove(previous);
      }
    }
    add(offset, bytes);
  }

 private:
  using ByOffset = std::map<std::int64_t, std::int64_t>;  // offset -> bytes

  void add(std::int64_t offset, std::int64_t bytes) {
    by_offset_[offset] = bytes;
    by_size_.insert({bytes, offset});
  }
  ByOffset::iterator remove(ByOffset::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    return by_offset_.erase(gap);
  }

  std::int64_t top_ = 0;
  ByOffset by_offset_;
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;  // (bytes, offset)
};

class MemoryPlanner {
 public:
  MemoryPlanner(const StepGraph& graph, const Plan& plan)
      : graph_(graph), order_(replay(graph, plan)), streams_(plan.streams.size()) {
    rank_by_time(plan, order_);
    collect_uses();
    form_blocks();
    for (std::size_t b = 0; b < blocks_.size(); ++b) find_lifetime(b);
  }

  /// Fills plan.offsets and returns the bytes needed.
  std::int64_t place_values(Plan& plan) const {
    std::vector<std::int64_t> best, offsets(blocks_.size());
    std::int64_t best_bytes = std::numeric_limits<std::int64_t>::max();
    const auto consider = [&](auto fit, const auto& key) {
      std::vector<std::size_t> order(blocks_.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, {}, [&](std::size_t b) { return std::pair(key(blocks_[b]), blocks_[b].begin); });
      const std::int64_t bytes = (this->*fit)(order, offsets);
      if (bytes < best_bytes) best = offsets, best_bytes = bytes;
    };
    const auto begin = [](const Block& block) { return block.begin; };
    consider(&MemoryPlanner::best_fit, begin);
    if (blocks_.size() <= kThoroughBlocks) {
      consider(&MemoryPlanner::first_fit, begin);
      consider(&MemoryPlanner::first_fit, [](const Block& block) { return -block.bytes; });
      consider(&MemoryPlanner::first_fit, [&](const Block& block) {
        const double last = std::min<double>(block.end, order_.time.size());
        return -static_cast<double>(block.bytes) * (last - block.begin + 1);
      });
    }

    for (ValueId value = 0; value < graph_.value_count(); ++value) {
      const std::int32_t block = block_of_[graph_.value(value).root];
      plan.offsets.push_back(block < 0 ? -1 : best[block]);
    }
    return best_bytes;
  }

 private:
  bool in_arena(ValueId id) const { return graph_.value(id).slot < 0 && graph_.value(id).root == id; }
  std::int64_t bytes(ValueId id) const { return static_cast<std::int64_t>(graph_.value(id).bytes()); }

  /// Per value and stream: how many nodes of the stream must be over before nobody uses the value any more.
  void collect_uses() {
    uses_.assign(graph_.value_count() * streams_, 0);
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      const Node& node = graph_.node(id);
      if (node.is_view) continue;
      BRAID_CHECK(order_.stream[id] >= 0, PlanError, "[memory] node ", id, " '", node.op->name(),
                  "' is never launched");
      const auto use = [&](ValueId value) {
        std::int32_t& uses = uses_[graph_.value(value).root * streams_ + order_.stream[id]];
        uses = std::max(uses, order_.position[id] + 1);
      };
      for (const ValueId input : graph_.inputs(node)) use(input);
      for (int i = 0; i < node.output_count; ++i) use(graph_.output(id, i));
    }
  }

  void form_blocks() {
    block_of_.assign(graph_.value_count(), -1);
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      if (!in_arena(id)) continue;
      const Value& value = graph_.value(id);
      if (may_take_over(id)) {
        block_of_[id] = block_of_[value.reuses];
      } else {
        block_of_[id] = static_cast<std::int32_t>(blocks_.size());
        blocks_.push_back({.bytes = aligned(bytes(id)), .first = value.producer});
        block_uses_.resize(block_uses_.size() + streams_);
      }
      blocks_[block_of_[id]].kept |= value.kept;
      // The uses of the newest value are what counts: they come after all uses of those before it.
      std::copy_n(uses_.begin() + id * streams_, streams_, block_uses_.begin() + block_of_[id] * streams_);
    }
  }

  /// Whether a value may be written over the one that it says it can reuse: its producer reads that one exactly once
  /// and everybody else is done with it. Not worth it where most of the bytes would lie idle.
  bool may_take_over(ValueId id) const {
    const Value& value = graph_.value(id);
    const ValueId old = value.reuses;
    if (old == kNoValue || !in_arena(old) || graph_.value(old).kept) return false;
    if (bytes(id) > bytes(old) || 2 * bytes(id) < bytes(old)) return false;

    const NodeId node = value.producer;
    const auto reads_old = [&](ValueId input) { return graph_.value(input).root == old; };
    if (std::ranges::count_if(graph_.inputs(node), reads_old) != 1) return false;
    for (ValueId other = graph_.node(node).first_output; other < id; ++other) {
      if (block_of_[other] == block_of_[old]) return false;  // another output was faster
    }
    for (std::size_t s = 0; s < streams_; ++s) {
      const bool own = order_.stream[node] == static_cast<std::int32_t>(s);
      if (uses_[old * streams_ + s] > order_.over(node, static_cast<int>(s)) + (own ? 1 : 0)) return false;
    }
    return true;
  }

  /// Finds for each stream how many of its nodes may run while the block is in use: all up to the first that starts
  /// after every use.
  void find_lifetime(std::size_t b) {
    Block& block = blocks_[b];
    block.begin = block.end = block.first == kNoNode ? -1 : order_.time[block.first];
    for (std::size_t s = 0; s < streams_; ++s) {
      const auto& nodes = order_.nodes[s];
      const auto in_use = [&](NodeId node) {
        for (std::size_t t = 0; t < streams_; ++t) {
          if (order_.over(node, static_cast<int>(t)) < block_uses_[b * streams_ + t]) return true;
        }
        return false;
      };
      const auto count = std::ranges::partition_point(nodes, in_use) - nodes.begin();
      concurrent_.push_back(block.kept ? kEnd : static_cast<std::int32_t>(count));
      if (count > 0) block.end = std::max(block.end, order_.time[nodes[count - 1]]);
    }
    if (block.kept) block.end = kEnd;
  }

  /// Whether every use of `a` is over before `b` is first written.
  bool before(std::size_t a, std::size_t b) const {
    const NodeId first = blocks_[b].first;
    return first != kNoNode && order_.position[first] >= concurrent_[a * streams_ + order_.stream[first]];
  }

  bool conflict(std::size_t a, std::size_t b) const {
    const bool apart = blocks_[a].end < blocks_[b].begin || blocks_[b].end < blocks_[a].begin;  // the usual case, cheap
    return !apart && !before(a, b) && !before(b, a);
  }

  /// Gives every block, in this order, the lowest gap among those it conflicts with. Returns the bytes used.
  std::int64_t first_fit(std::span<const std::size_t> order, std::vector<std::int64_t>& offsets) const {
    std::vector<std::size_t> placed;  // by offset
    std::int64_t top = 0;
    for (const std::size_t b : order) {
      std::int64_t gap = 0;
      for (const std::size_t other : placed) {
        if (offsets[other] - gap >= blocks_[b].bytes) break;
        if (conflict(other, b)) gap = std::max(gap, offsets[other] + blocks_[other].bytes);
      }
      offsets[b] = gap;
      placed.insert(std::ranges::upper_bound(placed, gap, {}, [&](std::size_t p) { return offsets[p]; }), b);
      top = std::max(top, gap + blocks_[b].bytes);
    }
    return top;
  }

  /// Places blocks as an allocator would at run time: each in the smallest gap that is large enough, which is free
  /// again once no stream can use the block any more. `order` is by time. O(n log n).
  std::int64_t best_fit(std::span<const std::size_t> order, std::vector<std::int64_t>& offsets) const {
    Gaps gaps;
    std::set<std::pair<std::int32_t, std::size_t>> in_use;  // (end, block)
    for (const std::size_t b : order) {
      for (; !in_use.empty() && in_use.begin()->first < blocks_[b].begin; in_use.erase(in_use.begin())) {
        const std::size_t over = in_use.begin()->second;
        gaps.give_back(offsets[over], blocks_[over].bytes);
      }
      offsets[b] = gaps.take(blocks_[b].bytes);
      in_use.insert({blocks_[b].end, b});
    }
    return gaps.top();
  }

  const StepGraph& graph_;
  Order order_;
  const std::size_t streams_;
  std::vector<Block> blocks_;
  std::vector<std::int32_t> block_of_;    // per value; -1 if it is persistent or a view
  std::vector<std::int32_t> uses_;        // value × stream
  std::vector<std::int32_t> block_uses_;  // block × stream
  std::vector<std::int32_t> concurrent_;  // block × stream: nodes of the stream that may run while it is in use
};

/// One slice a stream, large enough for every node in it: nodes of one stream never run at once.
void place_workspaces(const Costs& costs, Plan& plan) {
  plan.workspaces.clear();
  for (const auto& commands : plan.streams) {
    std::size_t bytes = 0;
    for (const auto& [kind, index] : commands) {
      if (kind != Command::Kind::launch) continue;
      bytes = std::max(bytes, costs.choice(index, plan.placements[index].choice).workspace_bytes);
    }
    plan.workspaces.push_back({plan.arena_bytes, static_cast<std::int64_t>(bytes)});
    plan.arena_bytes += aligned(plan.workspaces.back().bytes);
  }
}

}  // namespace

void plan_memory(const StepGraph& graph, const Costs& costs, Plan& plan) {
  plan.offsets.clear();
  plan.arena_bytes = MemoryPlanner(graph, plan).place_values(plan);
  const std::int64_t value_bytes = plan.arena_bytes;
  place_workspaces(costs, plan);

  plan.naive_bytes = plan.arena_bytes - value_bytes;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.slot < 0 && value.root == id) plan.naive_bytes += aligned(static_cast<std::int64_t>(value.bytes()));
  }
}

}  // namespace braid
