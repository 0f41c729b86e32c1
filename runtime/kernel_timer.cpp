#include "runtime/kernel_timer.h"

#include <algorithm>
#include <limits>

#include "core/align.h"
#include "scheduler/profile.h"

namespace braid {

namespace {

/// The fastest of so many runs counts; the first one warms caches and libraries.
constexpr int kRuns = 4;
constexpr double kUnknown = -1;

std::size_t aligned(std::size_t bytes) { return align_up(bytes, std::size_t{kArenaAlignment}); }

}  // namespace

void KernelTimer::time(const StepGraph& graph, const KernelChoices& kernels, Costs& costs, bool tf32) {
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    const auto& ways = kernels[static_cast<std::size_t>(node)];
    if (ways.size() < 2) continue;
    const std::string signature = node_signature(graph, node, tf32);
    std::vector<double> times;
    try {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        const Choice& choice = costs.choice(node, static_cast<int>(i));
        double& known = known_.try_emplace({signature, choice.width, choice.implementation}, kUnknown).first->second;
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
  const std::vector<ValueDesc> inputs = graph.input_descs(node);
  std::vector<OutputDesc> outputs;
  graph.node(node).op->infer(inputs, outputs);

  // One after another: inputs, outputs that do not overwrite one, workspace.
  std::size_t bytes = 0;
  std::vector<std::size_t> input_offsets, output_offsets;
  const auto reserve = [&](std::size_t size) { return std::exchange(bytes, bytes + aligned(size)); };
  const auto size = [](DType dtype, const Shape& shape) {
    return size_of(dtype) * static_cast<std::size_t>(shape.size());
  };
  for (const ValueDesc& input : inputs) input_offsets.push_back(reserve(size(input.dtype, input.shape)));
  for (const OutputDesc& output : outputs) {
    output_offsets.push_back(output.overwrites >= 0 ? input_offsets[static_cast<std::size_t>(output.overwrites)]
                                                    : reserve(size(output.dtype, output.shape)));
  }
  const std::size_t workspace = reserve(kernel.workspace_bytes());
  if (scratch_.data() == nullptr || scratch_.bytes() < bytes) {
    scratch_ = {};
    scratch_ = backend_.allocate(bytes);
  }

  const auto base = static_cast<std::byte*>(scratch_.data());
  const auto addresses = [&](const std::vector<std::size_t>& offsets) {
    std::vector<void*> list;
    for (const std::size_t offset : offsets) list.push_back(base + offset);
    return list;
  };
  kernel.bind(addresses(input_offsets), addresses(output_offsets), base + workspace);
  const Program program{.streams = {{{Instruction::Kind::launch, 0, &kernel}}}};
  double fastest = std::numeric_limits<double>::max();
  for (int run = 0; run < kRuns; ++run) {
    const std::vector<LaunchTime> times = streams_.measure(program);
    if (run > 0) fastest = std::min(fastest, times.empty() ? 0 : times[0].finish - times[0].start);
  }
  return fastest;
}

}  // namespace braid
