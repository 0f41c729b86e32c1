#include "runtime/compile/node_kernels.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

namespace braid {

namespace {

Implementations implementations(const StepGraph& graph, NodeId node, const KernelTarget& target, int width) {
  const auto inputs = graph.input_descs(node);
  const std::span<const ValueId> values = graph.inputs(node);
  const auto outputs = graph.output_descs(node);
  try {
    return make_implementations(target.device.type, {.op = *graph.node(node).op,
                                                     .inputs = inputs,
                                                     .outputs = outputs,
                                                     .width = std::max(1, width),
                                                     .constant_filter = target.keep_filters && values.size() > 1 &&
                                                                        graph.value(values[1]).slot >= 0,
                                                     .tf32 = target.tf32,
                                                     .direct = target.direct,
                                                     .deterministic = target.deterministic,
                                                     .autotune = target.autotune,
                                                     .workspace_limit = target.workspace_limit,
                                                     .multiprocessors = target.multiprocessors,
                                                     .device = target.device,
                                                     .info = &target.info,
                                                     .communicator = target.communicator});
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(message("[executable] the host has too little memory for the kernel of ", *graph.node(node).op,
                              " with an output of shape ", graph.value(graph.output(node, 0)).desc.shape));
  }
}

}  // namespace

std::vector<std::int32_t> changed_slots(const StepGraph& graph) {
  std::vector<std::int32_t> slots;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (graph.value(id).previous != kNoValue) slots.push_back(graph.value(id).slot);
  }
  return slots;
}

NodeKernels make_kernels(const StepGraph& graph, KernelTarget target, scheduler::Costs& costs) {
  target.keep_filters &= changed_slots(graph).empty();
  NodeKernels kernels(static_cast<std::size_t>(graph.node_count()));
  const std::vector<std::string_view> names = kernel_names(target.device.type);
  scheduler::Costs offered;
  std::vector<scheduler::Cost> built;
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    const Op& op = *graph.node(id).op;
    if (graph.node(id).is_view || (target.partial && !std::ranges::binary_search(names, op.name()))) {
      offered.add(costs.of(id));
      continue;
    }
    built.clear();
    for (const scheduler::Cost& cost : costs.of(id)) {
      for (Implementation& implementation : implementations(graph, id, target, cost.width)) {
        built.push_back({.width = cost.width,
                         .duration = cost.duration * implementation.relative_time,
                         .workspace_bytes = implementation.kernel->workspace_bytes(),
                         .algorithm = std::string(implementation.name),
                         .link = cost.link});
        kernels[static_cast<std::size_t>(id)].push_back(std::move(implementation.kernel));
      }
    }
    offered.add(built);
  }
  costs = std::move(offered);
  return kernels;
}

void keep_fastest(NodeKernels& kernels, scheduler::Costs& costs) {
  scheduler::Costs kept;
  std::vector<scheduler::Cost> fastest;
  for (NodeId id = 0; id < costs.node_count(); ++id) {
    auto& list = kernels[static_cast<std::size_t>(id)];
    std::vector<std::unique_ptr<Kernel>> kernels_kept;
    fastest.clear();
    for (std::size_t i = 0; const scheduler::Cost& cost : costs.of(id)) {
      if (fastest.empty() || cost.width != fastest.back().width) {
        fastest.push_back(cost);
        if (!list.empty()) kernels_kept.push_back(std::move(list[i]));
      } else if (cost.duration < fastest.back().duration) {
        fastest.back() = cost;
        if (!list.empty()) kernels_kept.back() = std::move(list[i]);
      }
      ++i;
    }
    kept.add(fastest);
    list = std::move(kernels_kept);
  }
  costs = std::move(kept);
}

NodeKernels make_kernels(const RewrittenGraph& recomputed, NodeKernels recorded, KernelTarget target,
                         const scheduler::Costs& costs) {
  target.keep_filters &= changed_slots(recomputed.graph).empty();
  const std::vector<NodeId> first = recomputed.first_nodes();
  NodeKernels kernels(static_cast<std::size_t>(recomputed.graph.node_count()));
  for (NodeId id = 0; id < recomputed.graph.node_count(); ++id) {
    auto& list = kernels[static_cast<std::size_t>(id)];
    const auto of = static_cast<std::size_t>(recomputed.recorded_node(id));
    if (first[of] == id) {
      list = std::move(recorded[of]);
    } else if (!recomputed.graph.node(id).is_view) {
      // The costs of the recorded node, in ascending width.
      Implementations of_width;
      std::optional<int> width;
      for (const scheduler::Cost& cost : costs.of(id)) {
        if (std::exchange(width, cost.width) != cost.width)
          of_width = implementations(recomputed.graph, id, target, cost.width);
        const auto same = std::ranges::find(of_width, cost.algorithm, &Implementation::name);
        BRAID_CHECK(same != of_width.end(), PlanError, "[executable] node ", id, " has a cost but no kernel for '",
                    cost.algorithm, '\'');
        list.push_back(std::move(same->kernel));
      }
    }
  }
  return kernels;
}

}  // namespace braid
