#include "runtime/profile/kernel_timer.h"

#include <set>

#include "runtime/profile/scratch.h"
#include "scheduler/costs/profile.h"

namespace braid {

void KernelTimer::time(const StepGraph& graph, const NodeKernels& kernels, scheduler::Costs& costs, bool tf32,
                       std::size_t least) {
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    const auto& ways = kernels[static_cast<std::size_t>(node)];
    if (ways.size() < least || graph.communicates(node)) continue;  // other ranks do not come
    const std::string signature = scheduler::node_signature(graph, node, tf32);
    std::vector<double> times;
    try {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        const scheduler::Cost& cost = costs.of(node, static_cast<int>(i));
        scheduler::NodeImplementation key{signature, cost.width, cost.algorithm};
        auto known = known_.find(key);
        if (known == known_.end()) known = known_.emplace(std::move(key), time(graph, node, *ways[i])).first;
        times.push_back(known->second.microseconds);
      }
    } catch (const OutOfMemory&) {
      continue;  // estimates and measured times do not compare
    }
    for (std::size_t i = 0; i < times.size(); ++i) costs.set_duration(node, static_cast<int>(i), times[i]);
  }
  scratch_ = {};
}

KernelTiming KernelTimer::time(const StepGraph& graph, NodeId node, Kernel& kernel) {
  const Scratch scratch(graph, node, kernel);
  clear_scratch(backend_, scratch_, scratch.bytes());
  scratch.bind(kernel, backend_, scratch_.data());
  return streams_.time(kernel);
}

std::string KernelTimer::clock() const {
  std::set<std::string_view> clocks;
  for (const auto& [implementation, timing] : known_) clocks.insert(timing.clock);
  std::string text;
  for (const std::string_view clock : clocks) text += message(text.empty() ? "" : " and ", clock);
  return text;
}

}  // namespace braid
