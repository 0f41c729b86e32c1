#include "runtime/executable.h"

#include <algorithm>

#include "ops/kernels.h"

namespace braid {

namespace {

/// A capture costs about as much as several runs, so plans that are seldom used are never captured.
constexpr int kRunsBeforeCapture = 2;

}  // namespace

KernelChoices make_kernels(const StepGraph& graph, DeviceType device, Costs& costs) {
  KernelChoices kernels(static_cast<std::size_t>(graph.node_count()));
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    if (graph.node(id).is_view) continue;
    const auto inputs = graph.input_descs(id);
    const auto outputs = graph.output_descs(id);
    for (int i = 0; i < static_cast<int>(costs.choices(id).size()); ++i) {
      auto kernel = make_kernel(
          device, {.op = *graph.node(id).op, .inputs = inputs, .outputs = outputs, .width = costs.choice(id, i).width});
      costs.set_workspace(id, i, kernel->workspace_bytes());
      kernels[static_cast<std::size_t>(id)].push_back(std::move(kernel));
    }
  }
  return kernels;
}

void keep_least_workspace(KernelChoices& kernels, Costs& costs) {
  Costs kept;
  for (NodeId id = 0; id < costs.node_count(); ++id) {
    const auto choices = costs.choices(id);
    const auto least = std::ranges::min_element(
        choices, {}, [](const Choice& choice) { return std::pair(choice.workspace_bytes, choice.duration); });
    kept.add(std::span(&*least, 1));
    auto& list = kernels[static_cast<std::size_t>(id)];
    if (list.empty()) continue;  // a view
    std::swap(list.front(), list[static_cast<std::size_t>(least - choices.begin())]);
    list.resize(1);
  }
  costs = std::move(kept);
}

Executable::Executable(const StepGraph& graph, Plan plan, KernelChoices kernels)
    : graph_(graph), plan_(std::move(plan)) {
  kernels_.resize(kernels.size());
  for (std::size_t id = 0; id < kernels.size(); ++id) {
    if (!kernels[id].empty())
      kernels_[id] = std::move(kernels[id][static_cast<std::size_t>(plan_.placements[id].choice)]);
  }
  program_.events = plan_.events;
  for (NodeId id = 0; id < graph_.node_count(); ++id) {
    program_.names.push_back(message(graph_.node(id).op->name(), ' ', id));
  }
  for (const auto& commands : plan_.streams) {
    auto& instructions = program_.streams.emplace_back();
    for (const Command& command : commands) {
      switch (command.kind) {
        case Command::Kind::record: instructions.push_back({Instruction::Kind::record, command.index, nullptr}); break;
        case Command::Kind::wait: instructions.push_back({Instruction::Kind::wait, command.index, nullptr}); break;
        case Command::Kind::launch:
          instructions.push_back(
              {Instruction::Kind::launch, command.index, kernels_[static_cast<std::size_t>(command.index)].get()});
          break;
      }
    }
  }
}

void* Executable::address(ValueId value, const Context& context) const {
  const Value& v = graph_.value(value);
  if (v.slot >= 0) return context.parameter(v.slot).data();
  return static_cast<std::byte*>(arena_) + plan_.offsets[static_cast<std::size_t>(v.root)];
}

void Executable::bind(void* arena, const Context& context) {
  if (bound_ && arena_ == arena) return;
  unbind();
  arena_ = arena;
  std::vector<void*> inputs, outputs;
  for (NodeId id = 0; id < graph_.node_count(); ++id) {
    Kernel* kernel = kernels_[static_cast<std::size_t>(id)].get();
    if (kernel == nullptr) continue;
    inputs.clear();
    outputs.clear();
    for (const ValueId input : graph_.inputs(id)) inputs.push_back(address(input, context));
    for (int i = 0; i < graph_.node(id).output_count; ++i) outputs.push_back(address(graph_.output(id, i), context));
    const int stream = plan_.placements[static_cast<std::size_t>(id)].stream;
    kernel->bind(inputs, outputs,
                 static_cast<std::byte*>(arena) + plan_.workspaces[static_cast<std::size_t>(stream)].offset);
  }
  bound_ = true;
}

void Executable::unbind() {
  bound_ = false;
  replay_.reset();
  runs_ = 0;
}

void Executable::upload_inputs(std::span<const std::pair<ValueId, Array>> inputs, StreamGroup& streams) const {
  std::vector<Upload> uploads;
  for (const auto& [value, array] : inputs) {
    std::byte* target = static_cast<std::byte*>(arena_) + plan_.offsets[static_cast<std::size_t>(value)];
    uploads.push_back({target, array.data(), array.bytes()});
  }
  streams.upload(uploads);
}

void Executable::launch(StreamGroup& streams, bool capture) {
  if (replay_ == nullptr && capture && runs_ >= kRunsBeforeCapture) replay_ = streams.capture(program_);
  if (replay_ != nullptr) {
    streams.launch(*replay_);
  } else {
    streams.launch(program_);
  }
  ++runs_;
}

Array Executable::read(ValueId value, const Context& context) const {
  const Value& v = graph_.value(value);
  BRAID_CHECK(!graph_.is_overwritten(value), Error, "[tensor] the parameter or state of shape ", v.desc.shape,
              " was overwritten in this step: read its newest version");
  BRAID_CHECK(v.slot >= 0 || graph_.value(v.root).kept, Error, "[tensor] the value of shape ", v.desc.shape,
              " was not kept: its memory served other values later in the step. Call keep() on the tensor before the "
              "step runs");
  Array array(v.desc.dtype, v.desc.shape);
  context.backend().copy_to_host(array.data(), address(value, context), array.bytes());
  return array;
}

}  // namespace braid
