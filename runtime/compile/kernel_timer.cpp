#include "runtime/compile/kernel_timer.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <ranges>
#include <set>

#include "core/text/text.h"
#include "runtime/compile/scratch.h"
#include "scheduler/costs/profile.h"

namespace braid {

namespace {

using Timings = std::map<scheduler::NodeImplementation, KernelTiming>;

/// What this process has timed, by device and the number of its cores or SMs.
class SharedTimings {
 public:
  static SharedTimings& of_process() {
    static SharedTimings timings;
    return timings;
  }
  std::optional<KernelTiming> find(const Backend& backend, const scheduler::NodeImplementation& implementation) {
    const std::lock_guard lock(mutex_);
    const Timings& of = timings_[key(backend)];
    const auto found = of.find(implementation);
    return found == of.end() ? std::nullopt : std::optional(found->second);
  }
  void add(const Backend& backend, const scheduler::NodeImplementation& implementation, const KernelTiming& timing) {
    const std::lock_guard lock(mutex_);
    timings_[key(backend)].emplace(implementation, timing);
  }

 private:
  using Key = std::pair<std::string, int>;
  static Key key(const Backend& backend) { return {message(backend.device()), backend.info().capacity}; }

  std::mutex mutex_;
  std::map<Key, Timings> timings_;
};

}  // namespace

KernelTimer::KernelTimer(Backend& backend, StreamGroup& streams, const scheduler::Profile* known, bool share)
    : backend_(backend), streams_(streams), share_(share) {
  if (known == nullptr) return;
  for (const scheduler::Measurement& measurement : known->measurements) {
    known_[measurement.implementation] = {.microseconds = measurement.microseconds, .samples = measurement.samples};
  }
}

void KernelTimer::time(const StepGraph& graph, const NodeKernels& kernels, scheduler::Costs& costs, bool tf32,
                       std::size_t least) {
  // Some implementations take a hundred times as long as the fastest.
  constexpr double kTooSlow = 2, kLaunchMicroseconds = 20;
  const auto workspace_bytes = [](const std::unique_ptr<Kernel>& kernel) { return kernel->workspace_bytes(); };
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    const auto& list = kernels[static_cast<std::size_t>(node)];
    if (list.size() < least || graph.communicates(node)) continue;  // other ranks do not take part
    const std::string signature = scheduler::node_signature(graph, node, tf32);
    std::vector<double> times;
    double enough = std::numeric_limits<double>::infinity();
    std::optional<Scratch> scratch;
    try {
      for (std::size_t i = 0; i < list.size(); ++i) {
        const scheduler::Cost& cost = costs.of(node, static_cast<int>(i));
        scheduler::NodeImplementation key{signature, cost.width, cost.algorithm};
        auto known = known_.find(key);
        if (known == known_.end() && share_) {
          const auto shared = SharedTimings::of_process().find(backend_, key);
          if (shared.has_value()) known = known_.emplace(key, *shared).first;
        }
        if (known == known_.end()) {
          if (!scratch.has_value()) {
            scratch.emplace(graph, node, std::ranges::max(list | std::views::transform(workspace_bytes)));
            clear_scratch(backend_, scratch_, scratch->bytes());
            scratch->fill(backend_, scratch_.data());
          }
          scratch->bind(*list[i], scratch_.data());
          known = known_.emplace(std::move(key), streams_.time(*list[i], enough)).first;
          if (share_) SharedTimings::of_process().add(backend_, known->first, known->second);
        }
        times.push_back(known->second.microseconds);
        enough = std::min(enough, kTooSlow * times.back() + kLaunchMicroseconds);
      }
    } catch (const OutOfMemory&) {
      continue;  // estimates and measured times do not compare
    }
    for (std::size_t i = 0; i < times.size(); ++i) costs.set_duration(node, static_cast<int>(i), times[i]);
  }
  scratch_ = {};
}

std::string KernelTimer::clock() const {
  std::set<std::string_view> clocks;
  for (const auto& [implementation, timing] : known_) {
    if (!timing.clock.empty()) clocks.insert(timing.clock);
  }
  return comma_list(clocks, " and ");
}

}  // namespace braid
