#include "runtime/profile/pair_profiler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "core/base/median.h"
#include "runtime/compile/planner.h"
#include "runtime/compile/scratch.h"
#include "scheduler/check/simulator.h"

namespace braid {

namespace {

/// Warm-up runs; rounds of measuring the two alone and together, more if other programs keep them from overlapping; the
/// least duration of a round, and the most repetitions.
constexpr int kWarm = 3, kRounds = 3, kMostRounds = 8, kLeastLaunches = 3, kMostLaunches = 1024;
constexpr double kLeastMicroseconds = 2000;
/// The least duration of what is measured between two events, which take as long as short kernels.
constexpr double kBurstMicroseconds = 50;

/// A kernel several times in a row, as one launch.
class Burst final : public Kernel {
 public:
  Burst(Kernel& kernel, int times) : kernel_(kernel), times_(times) {}
  void bind(std::span<void* const>, std::span<void* const>, void*) override {}
  void launch(const LaunchContext& context) override {
    for (int i = 0; i < times_; ++i) kernel_.launch(context);
  }

 private:
  Kernel& kernel_;
  int times_;
};

/// Launches of the kernels with indices from `first` on.
std::vector<Command> launches(int first, int times) {
  std::vector<Command> list;
  for (int i = 0; i < times; ++i) list.push_back({Command::Kind::launch, first + i});
  return list;
}

std::vector<double> durations(const std::vector<LaunchTime>& times) {
  std::vector<double> list;
  for (const LaunchTime& time : times) list.push_back(time.finish - time.start);
  return list;
}

/// The launches of one stream that ran while the other was busy, except for a moment.
std::vector<LaunchTime> beside(const std::vector<LaunchTime>& times, int stream) {
  constexpr double kShare = 0.95;
  double begin = std::numeric_limits<double>::infinity(), end = 0;
  for (const LaunchTime& time : times) {
    if (time.stream == stream) continue;
    begin = std::min(begin, time.start);
    end = std::max(end, time.finish);
  }
  std::vector<LaunchTime> list;
  std::ranges::copy_if(times, std::back_inserter(list), [&](const LaunchTime& time) {
    const double shared = std::min(time.finish, end) - std::max(time.start, begin);
    return time.stream == stream && shared >= kShare * (time.finish - time.start);
  });
  return list;
}

std::optional<PairTimer::Factor> factor(const std::vector<double>& beside, const std::vector<double>& alone) {
  if (beside.empty() || median(beside) <= 0 || median(alone) <= 0) return std::nullopt;
  return PairTimer::Factor{median(beside) / median(alone), static_cast<int>(beside.size())};
}

template <typename T>
void append(std::vector<T>& list, const std::vector<T>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

}  // namespace

std::vector<NodePair> overlapping_pairs(const StepGraph& graph, const scheduler::Costs& costs, const DeviceInfo& device,
                                        std::span<const int> streams, bool tf32) {
  std::vector<std::string> signatures;
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    signatures.push_back(scheduler::node_signature(graph, node, tf32));
  }
  std::map<std::pair<scheduler::NodeImplementation, scheduler::NodeImplementation>, NodePair> pairs;
  for (const int count : streams) {
    const scheduler::Problem problem = scheduler::make_problem(graph, costs, device, count);
    const scheduler::Plan plan = scheduler::make_plan(problem, scheduler::critical_path, "critical_path");
    const auto kind_of = [&](NodeId node) -> scheduler::NodeImplementation {
      const scheduler::Cost& cost = costs.of(node, plan.placements[node].implementation);
      return {signatures[node], cost.width, cost.algorithm};
    };
    for (const scheduler::Overlap& overlap : overlaps(simulate(problem, plan))) {
      NodePair pair{overlap.first, overlap.second, plan.placements[overlap.first].implementation,
                    plan.placements[overlap.second].implementation};
      std::pair key{kind_of(pair.first), kind_of(pair.second)};
      if (key.second < key.first) std::swap(key.first, key.second);
      pairs.try_emplace(std::move(key), pair).first->second.overlap += overlap.microseconds;
    }
  }
  std::vector<NodePair> list;
  for (const auto& [key, pair] : pairs) list.push_back(pair);
  std::ranges::stable_sort(list, std::greater(), &NodePair::overlap);
  return list;
}

void PairTimer::bind(const StepGraph& graph, NodeId first, Kernel& first_kernel, NodeId second, Kernel& second_kernel) {
  const Scratch of_first(graph, first, first_kernel.workspace_bytes()),
      of_second(graph, second, second_kernel.workspace_bytes());
  clear_scratch(backend_, scratch_, of_first.bytes() + of_second.bytes());
  std::byte* const base = static_cast<std::byte*>(scratch_.data());
  of_first.fill(backend_, base);
  of_second.fill(backend_, base + of_first.bytes());
  of_first.bind(first_kernel, base);
  of_second.bind(second_kernel, base + of_first.bytes());
}

std::vector<LaunchTime> PairTimer::measure(const Program& program) {
  RunTimes times = streams_->measure(program);
  clock_ = times.clock;
  return std::move(times.launches);
}

PairTimer::Factors PairTimer::time(const StepGraph& graph, NodeId first, Kernel& first_kernel, NodeId second,
                                   Kernel& second_kernel) {
  bind(graph, first, first_kernel, second, second_kernel);

  std::vector<Kernel*> kernels(2 * kMostLaunches, &first_kernel);  // the launches of the second come after the first's
  const auto second_half = kernels.begin() + kMostLaunches;
  std::fill(second_half, kernels.end(), &second_kernel);
  const auto durations_alone = [&](const std::vector<Command>& list, std::size_t stream) {
    CommandLists commands{.streams = std::vector<std::vector<Command>>(2)};
    commands.streams[stream] = list;
    return durations(measure({commands, kernels}));
  };
  const std::vector<double> first_warm = durations_alone(launches(0, kWarm), 0);
  const std::vector<double> second_warm = durations_alone(launches(kMostLaunches, kWarm), 1);
  if (first_warm.empty() || second_warm.empty()) return {};  // nothing runs on the device

  // Both are repeated for about the same time, so that each runs alongside the other.
  const double longest = std::max(median(first_warm), median(second_warm));
  const double total = std::max(kLeastMicroseconds, kLeastLaunches * longest);
  const auto repeats = [](double once, double microseconds) {
    return static_cast<int>(std::clamp(std::ceil(microseconds / once), 1.0, double{kMostLaunches}));
  };
  const int first_times = repeats(median(first_warm), kBurstMicroseconds);
  const int second_times = repeats(median(second_warm), kBurstMicroseconds);
  Burst first_burst(first_kernel, first_times), second_burst(second_kernel, second_times);
  std::fill(kernels.begin(), second_half, &first_burst);
  std::fill(second_half, kernels.end(), &second_burst);
  const auto bursts = [&](int index, double once, int times) {
    return launches(index, (repeats(once, total) + times - 1) / times);
  };
  const auto firsts = bursts(0, median(first_warm), first_times);
  const auto seconds = bursts(kMostLaunches, median(second_warm), second_times);
  CommandLists together{.streams = {{{Command::Kind::record, 0}, {Command::Kind::wait, 1}},
                                    {{Command::Kind::record, 1}, {Command::Kind::wait, 0}}},
                        .events = 2};
  append(together.streams[0], firsts);
  append(together.streams[1], seconds);

  std::vector<double> first_alone, second_alone, first_beside, second_beside;
  const auto enough = [&](int round) { return round >= kRounds && !(first_beside.empty() && second_beside.empty()); };
  for (int round = 0; round < kMostRounds && !enough(round); ++round) {
    append(first_alone, durations_alone(firsts, 0));
    append(second_alone, durations_alone(seconds, 1));
    const std::vector<LaunchTime> times = measure({together, kernels});
    append(first_beside, durations(beside(times, 0)));
    append(second_beside, durations(beside(times, 1)));
  }
  return {factor(first_beside, first_alone), factor(second_beside, second_alone)};
}

double PairTimer::wait_microseconds(const StepGraph& graph, NodeId first, Kernel& first_kernel, NodeId second,
                                    Kernel& second_kernel) {
  bind(graph, first, first_kernel, second, second_kernel);
  // Both streams launch again and again, and wait for each other before every launch but the first.
  constexpr int kTurns = 16;
  CommandLists commands{.streams = std::vector<std::vector<Command>>(2), .events = 2 * kTurns};
  std::vector<Kernel*> kernels;
  for (int i = 0; i < 2 * kTurns; ++i) {
    auto& stream = commands.streams[static_cast<std::size_t>(i % 2)];
    const int of_other = i % 2 == 0 ? i - 1 : i - 3;
    if (of_other >= 0) stream.push_back({Command::Kind::wait, of_other});
    stream.push_back({Command::Kind::launch, i});
    stream.push_back({Command::Kind::record, i});
    kernels.push_back(i % 2 == 0 ? &first_kernel : &second_kernel);
  }
  std::vector<double> gaps;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<LaunchTime> times = measure({commands, kernels});
    std::ranges::sort(times, {}, &LaunchTime::index);
    if (times.size() != kernels.size()) continue;  // some start nothing on the device
    for (std::size_t i = 2; i < times.size(); ++i) {
      const double own = times[i - 2].finish, others = times[i % 2 == 0 ? i - 1 : i - 3].finish;
      if (others > own) gaps.push_back(std::max(0.0, times[i].start - others));  // it had to wait
    }
  }
  return gaps.empty() ? 0 : median(gaps);
}

void profile_pairs(Session& session, std::span<const int> streams, std::size_t most,
                   const std::function<void(PairProgress)>& on_progress, scheduler::Profile& profile) {
  const SessionOptions& options = session.options();
  const DeviceInfo& device = session.backend().info();
  const KernelTarget target = kernel_target(session, options);
  const StepGraph graph = as_planned(session.tape().graph(), device, {}, target.direct).graph;
  scheduler::Costs costs = cost_model(options, device).costs(graph);
  const NodeKernels kernels = make_kernels(graph, target, costs);
  apply(profile, graph, costs, target.tf32);
  std::vector<NodePair> pairs = overlapping_pairs(graph, costs, device, streams, target.tf32);
  pairs.resize(std::min(pairs.size(), most));

  PairTimer timer(session.backend());
  const auto kind_of = [&](NodeId node, int implementation) -> scheduler::NodeImplementation {
    const scheduler::Cost& cost = costs.of(node, implementation);
    return {scheduler::node_signature(graph, node, target.tf32), cost.width, cost.algorithm};
  };
  profile.pairs.clear();
  profile.pair_clock.clear();
  for (const NodePair& pair : pairs) {
    on_progress({static_cast<std::size_t>(&pair - pairs.data()), pairs.size()});
    PairTimer::Factors factors;
    try {
      Kernel& first = *kernels[pair.first][pair.first_implementation];
      Kernel& second = *kernels[pair.second][pair.second_implementation];
      if (&pair == pairs.data()) {
        profile.wait_microseconds = timer.wait_microseconds(graph, pair.first, first, pair.second, second);
      }
      factors = timer.time(graph, pair.first, first, pair.second, second);
    } catch (const OutOfMemory&) {
      continue;
    }
    const scheduler::NodeImplementation first = kind_of(pair.first, pair.first_implementation),
                                        second = kind_of(pair.second, pair.second_implementation);
    if (factors.first) profile.pairs.push_back({first, second, factors.first->factor, factors.first->samples});
    if (factors.second && second != first) {
      profile.pairs.push_back({second, first, factors.second->factor, factors.second->samples});
    }
    if (!profile.pairs.empty()) profile.pair_clock = timer.clock();  // a busy machine may leave no pair
  }
}

}  // namespace braid
