// Placement is dynamic storage allocation with all lifetimes known. A few simple methods are tried and the smallest
// arena is kept: the best-fitting gap in order of time, as an allocator would, and the lowest gap that nothing in
// conflict occupies in order of time, of size (Pisarchyk and Lee, "Efficient memory management for deep neural net
// inference", 2020) and of size times lifetime. Where gaps are left, the blocks at the top are placed again, earlier.

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "scheduler/memory/lifetimes.h"

namespace braid::scheduler {
namespace {

/// Up to this many blocks all pairs are compared, in several orders: about ten milliseconds for 3,000 blocks.
constexpr std::size_t kThoroughBlocks = 8000;
/// An arena larger than kGoodEnough times the load gets up to kPromotions more attempts, over up to kPromotionPairs
/// pairs of blocks.
constexpr double kGoodEnough = 1.005, kPromotionPairs = 2e6;
constexpr int kPromotions = 64;

/// The free bytes below the highest address used so far.
class Gaps {
 public:
  std::int64_t top() const { return top_; }

  /// The lowest of the smallest gaps that are large enough, or the top.
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

class Placer {
 public:
  explicit Placer(const Lifetimes& lifetimes) : lifetimes_(lifetimes), blocks_(lifetimes.blocks()) {}

  /// The offsets of all blocks, and the bytes needed.
  std::int64_t place(std::vector<std::int64_t>& best) const {
    std::vector<std::int64_t> offsets(blocks_.size());
    std::vector<std::int32_t> best_order;
    std::int64_t best_bytes = std::numeric_limits<std::int64_t>::max();
    const auto consider = [&](auto fit, const auto& key) {
      std::vector<std::int32_t> order(blocks_.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, {}, [&](std::int32_t b) { return std::pair(key(blocks_[b]), blocks_[b].begin); });
      const std::int64_t bytes = (this->*fit)(order, offsets);
      if (bytes < best_bytes) best = offsets, best_bytes = bytes, best_order = order;
    };
    const auto begin = [](const ValueBlock& block) { return block.begin; };
    consider(&Placer::best_fit, begin);
    if (blocks_.size() <= kThoroughBlocks) {
      consider(&Placer::first_fit, begin);
      consider(&Placer::first_fit, [](const ValueBlock& block) { return -block.bytes; });
      consider(&Placer::first_fit, [&](const ValueBlock& block) {
        const double last = std::min(block.end, lifetimes_.ranks());
        return -static_cast<double>(block.bytes) * (last - block.begin + 1);
      });
    }
    return promote(best_order, best_bytes, best);
  }

 private:
  /// Blocks at the top were placed too late: they move towards the front of the order, repeatedly, and the smallest
  /// arena found is kept. First they move to the very front; if that does not help enough, halfway.
  std::int64_t promote(const std::vector<std::int32_t>& start, std::int64_t best_bytes,
                       std::vector<std::int64_t>& best) const {
    const double enough = kGoodEnough * static_cast<double>(load());
    const auto good_enough = [&] { return static_cast<double>(best_bytes) <= enough; };
    const double pairs = static_cast<double>(start.size()) * static_cast<double>(start.size());
    const std::vector<std::int64_t> start_offsets = best;
    const std::int64_t start_bytes = best_bytes;
    for (const int part : {1, 2}) {
      std::vector<std::int32_t> order = start;
      std::vector<std::int64_t> offsets = start_offsets;
      std::int64_t bytes = start_bytes;
      for (int round = 0; round < kPromotions && (round + 1) * pairs <= kPromotionPairs && !good_enough(); ++round) {
        const auto at_top = [&](std::int32_t b) { return offsets[b] + blocks_[b].bytes == bytes; };
        const auto late = std::ranges::find_if(order, at_top);
        std::rotate(late - (late - order.begin()) / part, late, late + 1);
        bytes = first_fit(order, offsets);
        if (bytes < best_bytes) best = offsets, best_bytes = bytes;
      }
    }
    return best_bytes;
  }

  /// The most bytes in use between begin and end of blocks: on one stream a lower bound.
  std::int64_t load() const {
    std::vector<std::pair<std::int32_t, std::int64_t>> changes;  // at equal times, blocks end before others begin
    for (const ValueBlock& block : blocks_) {
      changes.emplace_back(block.begin, block.bytes);
      if (block.end < lifetimes_.ranks()) changes.emplace_back(block.end + 1, -block.bytes);
    }
    std::ranges::sort(changes);
    std::int64_t now = 0, most = 0;
    for (const auto& [time, change] : changes) most = std::max(most, now += change);
    return most;
  }

  /// Gives every block, in this order, the lowest gap among those it conflicts with. Returns the bytes used.
  std::int64_t first_fit(std::span<const std::int32_t> order, std::vector<std::int64_t>& offsets) const {
    std::vector<std::int32_t> placed;  // by offset
    std::int64_t top = 0;
    for (const std::int32_t b : order) {
      std::int64_t gap = 0;
      for (const std::int32_t other : placed) {
        if (offsets[other] - gap >= blocks_[b].bytes) break;
        if (lifetimes_.conflict(other, b)) gap = std::max(gap, offsets[other] + blocks_[other].bytes);
      }
      offsets[b] = gap;
      placed.insert(std::ranges::upper_bound(placed, gap, {}, [&](std::int32_t p) { return offsets[p]; }), b);
      top = std::max(top, gap + blocks_[b].bytes);
    }
    return top;
  }

  /// Places blocks as an allocator would at run time: each in the smallest gap that is large enough, which is reused
  /// once no stream can use the block any more. `order` is by time. O(n log n).
  std::int64_t best_fit(std::span<const std::int32_t> order, std::vector<std::int64_t>& offsets) const {
    Gaps gaps;
    std::set<std::pair<std::int32_t, std::int32_t>> in_use;  // (end, block)
    for (const std::int32_t b : order) {
      for (; !in_use.empty() && in_use.begin()->first < blocks_[b].begin; in_use.erase(in_use.begin())) {
        const std::int32_t over = in_use.begin()->second;
        gaps.give_back(offsets[over], blocks_[over].bytes);
      }
      offsets[b] = gaps.take(blocks_[b].bytes);
      in_use.insert({blocks_[b].end, b});
    }
    return gaps.top();
  }

  const Lifetimes& lifetimes_;
  const std::span<const ValueBlock> blocks_;
};

/// One slice per stream behind the values, large enough for every node in it: nodes of one stream never run
/// concurrently.
void append_workspaces(const Costs& costs, Plan& plan) {
  plan.workspaces.clear();
  for (const auto& commands : plan.commands.streams) {
    std::size_t most = 0;
    for (const auto& [kind, index] : commands) {
      if (kind != Command::Kind::launch) continue;
      most = std::max(most, costs.of(index, plan.placements[index].implementation).workspace_bytes);
    }
    plan.workspaces.push_back({plan.arena_bytes, static_cast<std::int64_t>(most)});
    plan.arena_bytes += arena_aligned(most);
    plan.naive_bytes += arena_aligned(most);
    plan.live_bytes += arena_aligned(most);
  }
}

}  // namespace

void plan_memory(const StepGraph& graph, const Costs& costs, Plan& plan) {
  const Lifetimes lifetimes(graph, plan);
  std::vector<std::int64_t> block_offsets;
  plan.arena_bytes = Placer(lifetimes).place(block_offsets);
  plan.live_bytes = lifetimes.peak().bytes;
  plan.naive_bytes = 0;
  plan.offsets.clear();
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    const std::int32_t block = lifetimes.block_of(id);
    plan.offsets.push_back(block < 0 ? -1 : block_offsets[block]);
    if (block >= 0 && value.root == id) plan.naive_bytes += arena_aligned(value.bytes());
  }
  append_workspaces(costs, plan);
}

void replace_workspaces(const StepGraph& graph, const Costs& costs, Plan& plan) {
  for (const ArenaSlice& old : plan.workspaces) {
    plan.arena_bytes -= arena_aligned(old.bytes);
    plan.naive_bytes -= arena_aligned(old.bytes);
  }
  plan.live_bytes = Lifetimes(graph, plan).peak().bytes;
  append_workspaces(costs, plan);
}

MemoryUse memory_use(const StepGraph& graph, const Plan& plan) {
  MemoryUse use;
  const Lifetimes lifetimes(graph, plan);
  for (const ValueId id : lifetimes.peak().values) {
    const ValueKind kind = graph.value(id).kind;
    std::int64_t& part = kind == ValueKind::gradient ? use.gradients
                         : kind == ValueKind::input  ? use.inputs
                                                     : use.activations;
    part += lifetimes.blocks()[lifetimes.block_of(id)].bytes;
  }
  for (const ArenaSlice& slice : plan.workspaces) use.workspaces += arena_aligned(slice.bytes);
  for (const Value& value : graph.values()) {
    const bool first_version = value.slot >= 0 && value.producer == kNoNode;
    if (first_version) use.persistent += static_cast<std::int64_t>(value.bytes());
  }
  return use;
}

}  // namespace braid::scheduler
