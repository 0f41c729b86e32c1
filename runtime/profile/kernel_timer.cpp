#include "runtime/profile/kernel_timer.h"

#include <algorithm>
#include <limits>

#include "runtime/profile/scratch.h"
#include "scheduler/costs/profile.h"

namespace braid {

namespace {

/// Runs of which the fastest counts; the first one warms caches and libraries.
constexpr int kTimedRuns = 4;
constexpr double kUnknown = -1;

}  // namespace

void KernelTimer::time(const StepGraph& graph, const NodeKernels& kernels, scheduler::Costs& costs, bool tf32) {
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    const auto& ways = kernels[static_cast<std::size_t>(node)];
    if (ways.size() < 2) continue;
    const std::string signature = scheduler::node_signature(graph, node, tf32);
    std::vector<double> times;
    try {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        const scheduler::Cost& cost = costs.of(node, static_cast<int>(i));
        double& known = known_.try_emplace({signature, cost.width, cost.algorithm}, kUnknown).first->second;
        if (known == kUnknown) known = microseconds(graph, node, *ways[i]);
        times.push_back(known);
      }
    } catch (const OutOfMemory&) {
      continue;  // estimates and measured times do not compare
    }
    for (std::size_t i = 0; i < times.size(); ++i) costs.set_duration(node, static_cast<int>(i), times[i]);
  }
  scratch_ = {};
}

double KernelTimer::microseconds(const StepGraph& graph, NodeId node, Kernel& kernel) {
  const Scratch scratch(graph, node, kernel);
  clear_scratch(backend_, scratch_, scratch.bytes());
  scratch.bind(kernel, scratch_.data());
  const CommandLists once{.streams = {{{Command::Kind::launch, 0}}}};
  const Program program{once, {&kernel}};
  double fastest = std::numeric_limits<double>::max();
  for (int run = 0; run < kTimedRuns; ++run) {
    const std::vector<LaunchTime> times = streams_.measure(program);
    if (run > 0) fastest = std::min(fastest, times.empty() ? 0 : times[0].finish - times[0].start);
  }
  return fastest;
}

}  // namespace braid
