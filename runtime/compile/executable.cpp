#include "runtime/compile/executable.h"

namespace braid {

Executable::Executable(const RewrittenGraph& rewritten, std::optional<RewrittenGraph> recomputed, scheduler::Plan plan,
                       NodeKernels kernels, const scheduler::Costs& costs, bool brief)
    : recomputed_(std::move(recomputed)),
      rewritten_(recomputed_.has_value() ? *recomputed_ : rewritten),
      graph_(rewritten_.graph),
      plan_(std::move(plan)),
      program_{.commands = plan_.commands, .kernels = {}, .brief = brief},
      changed_(changed_slots(graph_)) {
  for (NodeId id = 0; id < graph_.node_count(); ++id) {
    const int implementation = plan_.placements[id].implementation;
    chosen_.push_back(costs.of(id, implementation));
    kernels_.push_back(kernels[id].empty() ? nullptr : std::move(kernels[id][implementation]));
    Kernel* const kernel = program_.kernels.emplace_back(kernels_.back().get());
    program_.names.push_back(message(graph_.node(id).op->name(), ' ', id));
    if (kernel != nullptr && kernel->keeps_filter()) {
      kept_filters_.push_back({kernel, graph_.value(graph_.inputs(id)[1]).slot, 0});
    }
  }
}

void* Executable::address(ValueId value, const Context& context) const {
  const Value& v = graph_.value(value);
  if (v.slot >= 0) return context.parameter(v.slot).data();
  return static_cast<std::byte*>(arena_) + plan_.offsets[v.root];
}

void Executable::keep_filters(const Context& context, StreamGroup& streams) {
  for (KeptFilter& kept : kept_filters_) {
    const std::uint64_t version = context.parameter(kept.slot).version();
    if (kept.version == version) continue;
    streams.synchronize();  // a step that changes the filter, or one that reads the copy, may be running
    kept.kernel->keep_filter(version);
    kept.version = version;
  }
}

void Executable::bind(void* arena, const Context& context, StreamGroup& streams) {
  if (bound_ && arena_ == arena) return keep_filters(context, streams);
  bound_ = false;
  replay_.reset();
  runs_ = 0;
  arena_ = arena;
  std::vector<void*> inputs, outputs;
  for (NodeId id = 0; id < graph_.node_count(); ++id) {
    Kernel* const kernel = program_.kernels[id];
    if (kernel == nullptr) continue;
    inputs.clear();
    outputs.clear();
    for (const ValueId input : graph_.inputs(id)) inputs.push_back(address(input, context));
    for (int i = 0; i < graph_.node(id).output_count; ++i) outputs.push_back(address(graph_.output(id, i), context));
    const std::int64_t workspace = plan_.workspaces[plan_.placements[id].stream].offset;
    kernel->bind(inputs, outputs, static_cast<std::byte*>(arena) + workspace);
  }
  for (KeptFilter& kept : kept_filters_) kept.version = 0;  // copies belong to addresses
  keep_filters(context, streams);
  bound_ = true;
}

Work Executable::work(NodeId node) const {
  Work work = graph_.node(node).op->work(graph_.input_descs(node), graph_.output_descs(node));
  const Kernel* kernel = program_.kernels[node];
  if (kernel != nullptr && kernel->flops() > 0) work.flops = kernel->flops();
  return work;
}

void Executable::try_kernels(StreamGroup& streams) {
  if (tried_) return;
  CommandLists commands{.streams = {{}}};
  for (NodeId id = 0; id < graph_.node_count(); ++id) {
    const Kernel* kernel = program_.kernels[id];
    if (kernel != nullptr && kernel->is_untried()) commands.streams[0].push_back({Command::Kind::launch, id});
  }
  if (!commands.streams[0].empty()) {
    const Program program{commands, program_.kernels, program_.names};
    try {
      streams.launch(program);
    } catch (const UnusableKernel&) {
      streams.synchronize();
      throw;
    }
    streams.synchronize();
  }
  tried_ = true;
}

void Executable::upload_inputs(std::span<const std::pair<ValueId, Array>> inputs, StreamGroup& streams) {
  uploads_.clear();
  for (const auto& [value, array] : inputs) {
    if (rewritten_.value(value) == kNoValue) continue;  // another rank's stage reads it
    std::byte* target = static_cast<std::byte*>(arena_) + plan_.offsets[rewritten_.value(value)];
    uploads_.push_back({target, array.data(), array.bytes()});
  }
  streams.upload(uploads_);
}

bool Executable::capture(StreamGroup& streams) {
  replay_ = streams.capture(program_);
  return replay_ != nullptr;
}

void Executable::launch(StreamGroup& streams) {
  if (replay_ != nullptr) {
    streams.launch(*replay_);
  } else {
    streams.launch(program_);
  }
  ++runs_;
}

const void* Executable::source(ValueId recorded, const Context& context) const {
  const ValueId value = rewritten_.value(recorded);
  BRAID_CHECK(value != kNoValue, Error,
              "[tensor] the value was not kept: it is in the middle of a chain of elementwise functions, or between a "
              "batch norm and convolutions, which are computed as one, or on another stage of a pipeline. Call keep() "
              "on the tensor before the step runs; read a parameter by session.read()");
  const Value& v = graph_.value(value);
  BRAID_CHECK(!graph_.is_overwritten(value), Error, "[tensor] the parameter or state of shape ", v.desc.shape,
              " was overwritten in this step: read its newest version");
  BRAID_CHECK(
      v.slot >= 0 || graph_.value(v.root).kept, Error, "[tensor] the value of shape ", v.desc.shape,
      " was not kept: other values reused its memory later in the step. Call keep() on the tensor before the step "
      "runs");
  return address(value, context);
}

Array Executable::read(ValueId value, const Context& context) const {
  const void* from = source(value, context);
  const ValueDesc& desc = graph_.value(rewritten_.value(value)).desc;
  Array array(desc.dtype, desc.shape);
  context.backend().copy_to_host(array.data(), from, array.bytes());
  return array;
}

}  // namespace braid
