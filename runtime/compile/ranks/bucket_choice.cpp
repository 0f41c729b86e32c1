#include "runtime/compile/ranks/bucket_choice.h"

#include <algorithm>
#include <numeric>

#include "ops/collective/collective.h"
#include "runtime/compile/planner.h"
#include "scheduler/buckets.h"
#include "scheduler/check/simulator.h"
#include "scheduler/policies/list_scheduler.h"

namespace braid {

namespace {

using Buckets = std::vector<std::int32_t>;

/// Budgets of the searches by list scheduler and by policy: graphs made × nodes².
constexpr double kListBudget = 2e7, kPolicyBudget = 2e6;
/// The least relative saving of a change.
constexpr double kLeastSaved = 1e-4;
/// If the largest all-reduce occupies the link for more than this share of the time, it is also tried in this many
/// slices.
constexpr double kSlicedShare = 1.0 / 64, kSlices = 16;
/// DistributedDataParallel of PyTorch starts with a bucket of 1 MiB and continues with 25 MiB.
constexpr std::int64_t kFirstBytes = std::int64_t{1} << 20, kBytes = std::int64_t{25} << 20;

class Choice {
 public:
  Choice(const StepGraph& recorded, ops::Partition partition, const scheduler::CostModel& model, int streams,
         scheduler::Policy policy, bool improves)
      : recorded_(recorded),
        partition_(std::move(partition)),
        model_(model),
        streams_(streams),
        policy_(policy),
        improves_(improves) {}

  ops::Partition run() {
    double best = search();
    ops::Partition kept = partition_;
    double longest = 0;
    for (const scheduler::Summand& sum : summands_) {
      longest = std::max(longest, 1e6 * seconds(sum.communication, model_.device.link));
    }
    if (longest > kSlicedShare * best) {
      partition_.slice_bytes = static_cast<std::int64_t>(std::ranges::max(bytes_) / kSlices);
      if (search() < best * (1 - kLeastSaved)) return partition_;
    }
    return kept;
  }

 private:
  /// The predicted time with the best buckets, which it leaves in the partition.
  double search() {
    find_summands();
    if (summands_.size() < 2) {
      partition_.buckets = Buckets(summands_.size(), 1);
      return improves_ ? simulated(partition_.buckets) : listed(partition_.buckets);
    }
    const auto count = static_cast<std::int32_t>(summands_.size());
    const std::int64_t slice = std::max<std::int64_t>(2, partition_.slice_bytes);
    const auto eighth = static_cast<std::int64_t>(1 + std::reduce(bytes_.begin(), bytes_.end()) / 8);
    std::vector<Buckets> candidates{{count},
                                    of_sizes(kFirstBytes, kBytes),
                                    of_sizes(kBytes, kBytes),
                                    of_sizes(eighth, eighth),
                                    of_sizes(slice / 2, slice / 2),
                                    scheduler::merge(summands_, model_.device.link),
                                    Buckets(summands_.size(), 1)};
    std::ranges::sort(candidates);
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    if (improves_) candidates.push_back(best_of(candidates, &Choice::listed, kListBudget).second);
    const auto [time, buckets] = best_of(candidates, improves_ ? &Choice::simulated : &Choice::listed, kPolicyBudget);
    partition_.buckets = buckets;
    return time;
  }

  scheduler::Problem problem(const Buckets& buckets) {
    partition_.buckets = buckets;
    StepGraph graph = as_planned(recorded_, model_.device, partition_, model_.direct).graph;
    nodes_ = graph.node_count();
    return model_.problem(std::move(graph), streams_);
  }

  /// Finds the summands, as if each were communicated alone at no cost.
  void find_summands() {
    partition_.bucket_bytes = 0;
    scheduler::Problem alone = problem({});
    for (NodeId node = 0; node < alone.graph.node_count(); ++node) {
      if (alone.costs.link(node) != scheduler::kNoLink) alone.costs.set_duration(node, 0, 0);
    }
    const std::vector<double> levels = scheduler::bottom_levels(alone.edges, alone.costs);
    const scheduler::Schedule schedule =
        scheduler::list_schedule(alone, {.priorities = scheduler::recording_priorities(alone, levels)});
    summands_.clear();
    bytes_.clear();
    for (NodeId node = 0; node < alone.graph.node_count(); ++node) {
      if (!is_in_bucket(*alone.graph.node(node).op)) continue;
      summands_.push_back({schedule.placements[node].start, levels[node], alone.graph.communication(node)});
      bytes_.push_back(static_cast<double>(alone.graph.value(alone.graph.inputs(node).front()).bytes()));
    }
  }

  /// Whether it is a sum of those that the partition puts into buckets: along the last axis of the mesh.
  bool is_in_bucket(const Op& op) const {
    const auto last = static_cast<std::int64_t>(partition_.mesh().axes()) - 1;
    if (const auto* sum = dynamic_cast<const ops::AllReduce*>(&op)) return sum->attributes().along.lie_along(last);
    const auto* sum = dynamic_cast<const ops::ReduceScatter*>(&op);
    return sum != nullptr && sum->attributes().along.lie_along(last);
  }

  /// Buckets that are closed once the first has `first` bytes, and each later one `others`.
  Buckets of_sizes(std::int64_t first, std::int64_t others) const {
    Buckets buckets{0};
    double bytes = 0;
    for (const double its : bytes_) {
      if (bytes >= static_cast<double>(buckets.size() == 1 ? first : others)) {
        buckets.push_back(0);
        bytes = 0;
      }
      ++buckets.back();
      bytes += its;
    }
    return buckets;
  }

  using Time = double (Choice::*)(const Buckets&);

  double listed(const Buckets& buckets) {
    const scheduler::Problem made = problem(buckets);
    std::vector<double> levels = scheduler::bottom_levels(made.edges, made.costs);
    const double by_level = scheduler::list_schedule(made, {.priorities = levels}).makespan;
    scheduler::ListRules rules{.priorities = scheduler::recording_priorities(made, std::move(levels))};
    return std::min(by_level, scheduler::list_schedule(made, rules).makespan);
  }
  double simulated(const Buckets& buckets) {
    const scheduler::Problem made = problem(buckets);
    return scheduler::simulate(made, scheduler::plan_commands(made, policy_(made), "")).makespan;
  }

  /// Improves each candidate, the best ones first, by joining neighbours, splitting buckets and moving borders until
  /// nothing helps. Returns the best result within the budget.
  std::pair<double, Buckets> best_of(std::span<const Buckets> candidates, Time time, double budget) {
    std::vector<std::pair<double, Buckets>> found;
    for (const Buckets& buckets : candidates) found.emplace_back((this->*time)(buckets), buckets);
    std::ranges::stable_sort(found, {}, &std::pair<double, Buckets>::first);
    for (double left = improves_ ? budget : 0; auto& from : found) {
      const auto take = [&](const std::vector<bool>& ends) {
        const Buckets buckets = buckets_of(ends);
        left -= nodes_ * nodes_;
        const double taken = (this->*time)(buckets);
        if (taken >= from.first * (1 - kLeastSaved)) return false;
        from = {taken, buckets};
        return true;
      };
      for (bool better = true; std::exchange(better, false);) {
        for (std::size_t border = 1; border < summands_.size() && left > 0; ++border) {
          std::vector<bool> ends = ends_of(from.second);
          ends[border - 1] = !ends[border - 1];
          better |= take(ends);
          ends = ends_of(from.second);
          if (border + 1 < summands_.size() && ends[border - 1] != ends[border]) {
            std::vector<bool>::swap(ends[border - 1], ends[border]);
            better |= take(ends);
          }
        }
      }
    }
    return *std::ranges::min_element(found, {}, &std::pair<double, Buckets>::first);
  }

  /// Per summand: whether it is the last of its bucket.
  static std::vector<bool> ends_of(const Buckets& buckets) {
    std::vector<bool> ends;
    for (const std::int32_t size : buckets) {
      ends.resize(ends.size() + static_cast<std::size_t>(size));
      ends.back() = true;
    }
    return ends;
  }
  static Buckets buckets_of(const std::vector<bool>& ends) {
    Buckets buckets{0};
    for (std::size_t i = 0; i < ends.size(); ++i) {
      ++buckets.back();
      if (ends[i] && i + 1 < ends.size()) buckets.push_back(0);
    }
    return buckets;
  }

  const StepGraph& recorded_;
  ops::Partition partition_;
  const scheduler::CostModel& model_;
  const int streams_;
  const scheduler::Policy policy_;
  const bool improves_;
  std::vector<scheduler::Summand> summands_;
  std::vector<double> bytes_;  // per summand
  double nodes_ = 0;           // nodes of the last graph made
};

}  // namespace

ops::Partition with_buckets(const StepGraph& recorded, const ops::Partition& partition,
                            const scheduler::CostModel& model, int streams, scheduler::Policy policy, bool improves) {
  return Choice(recorded, partition, model, streams, policy, improves).run();
}

}  // namespace braid
