#include "models/inference.h"

#include <cmath>

namespace braid {

namespace {

constexpr std::size_t kBias = 2;  // among the inputs of a convolution

/// The f32 parameter behind a value: itself, or what it is a rounded copy of.
Parameter* parameter_of(const Context& context, const StepGraph& graph, ValueId value) {
  const std::int32_t slot = graph.value(value).slot;
  if (slot < 0) return nullptr;
  Parameter& parameter = context.parameter(slot);
  return parameter.original() != nullptr ? parameter.original() : &parameter;
}

/// The attributes of a node whose op is known.
template <class O>
const auto& attributes_of(const StepGraph& graph, NodeId node) {
  return static_cast<const O&>(*graph.node(node).op).attributes();
}

/// Per node, the convolution that can be folded with it; kNoNode if there is none.
std::vector<NodeId> foldable_convolutions(const StepGraph& graph) {
  std::vector<int> readers(static_cast<std::size_t>(graph.value_count()));
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    for (const ValueId input : graph.inputs(id)) ++readers[static_cast<std::size_t>(input)];
  }
  std::vector<NodeId> convolutions(static_cast<std::size_t>(graph.node_count()), kNoNode);
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    const auto* norm = dynamic_cast<const ops::BatchNormInference*>(graph.node(id).op.get());
    if (norm == nullptr || norm->attributes().add) continue;
    const ValueId x = graph.inputs(id)[0];
    const NodeId producer = graph.value(x).producer;
    if (producer == kNoNode || readers[static_cast<std::size_t>(x)] != 1) continue;
    const auto* conv = dynamic_cast<const ops::Conv2d*>(graph.node(producer).op.get());
    if (conv == nullptr || conv->attributes().activation != Activation::none) continue;
    bool stored = true;  // in parameters, not computed
    for (const ValueId input : graph.inputs(producer).subspan(1)) stored = stored && graph.value(input).slot >= 0;
    for (const ValueId input : graph.inputs(id).subspan(1)) stored = stored && graph.value(input).slot >= 0;
    if (stored) convolutions[static_cast<std::size_t>(id)] = producer;
  }
  return convolutions;
}

}  // namespace

Inference::Folded& Inference::folded(const StepGraph& graph, NodeId conv_node, NodeId norm_node) {
  const auto conv = graph.inputs(conv_node), norm = graph.inputs(norm_node);
  const auto parameter = [&](ValueId value) { return parameter_of(model_.context(), graph, value); };
  Parameter &weight = *parameter(conv[1]), &scale = *parameter(norm[1]);
  const std::pair key(weight.slot(), scale.slot());
  if (const auto found = folded_.find(key); found != folded_.end()) return found->second;
  Folded pair{.weight = &weight,
              .bias = conv.size() > kBias ? parameter(conv[kBias]) : nullptr,
              .scale = &scale,
              .shift = parameter(norm[2]),
              .mean = parameter(norm[3]),
              .variance = parameter(norm[4]),
              .epsilon = attributes_of<ops::BatchNormInference>(graph, norm_node).epsilon,
              .tensors = OwnedTensors(weight)};
  pair.tensors.add_another(weight.name() + ".folded", weight.desc(), ValueKind::parameter);
  pair.tensors.add_another(weight.name() + ".folded_bias", scale.desc(), ValueKind::parameter);
  fold(pair);
  return folded_.emplace(key, std::move(pair)).first->second;
}

void Inference::fold(const Folded& pair) {
  Context& context = model_.context();
  Array weight(DType::f32, pair.weight->shape()), bias(DType::f32, pair.scale->shape());
  const Array from = context.read(*pair.weight), scale = context.read(*pair.scale), shift = context.read(*pair.shift),
              mean = context.read(*pair.mean), variance = context.read(*pair.variance);
  const Array before = pair.bias == nullptr ? Array(DType::f32, bias.shape()) : context.read(*pair.bias);
  const auto filters = static_cast<std::size_t>(bias.size());
  const std::size_t size = static_cast<std::size_t>(weight.size()) / filters;
  for (std::size_t k = 0; k < filters; ++k) {
    const auto at = [k](const Array& array) { return static_cast<double>(array.as<float>()[k]); };
    const double factor = at(scale) / std::sqrt(at(variance) + pair.epsilon);
    bias.as<float>()[k] = static_cast<float>(at(shift) + (at(before) - at(mean)) * factor);
    const std::span<const float> source = from.as<float>().subspan(k * size, size);
    std::ranges::transform(source, weight.as<float>().subspan(k * size, size).begin(),
                           [factor](float w) { return static_cast<float>(static_cast<double>(w) * factor); });
  }
  context.write(pair.folded_weight(), weight);
  context.write(pair.folded_bias(), bias);
}

void Inference::refresh() {
  std::erase_if(folded_,
                [](const auto& entry) { return entry.second.weight->released() || entry.second.scale->released(); });
  for (const auto& [slots, pair] : folded_) fold(pair);
}

Tensor Inference::operator()(const Array& images, DType dtype, Layout layout) {
  Tape& tape = Tape::current();
  Tape scratch(model_.context());
  ValueId input = kNoValue, output = kNoValue;
  {
    const ModuleMode evaluation(model_, false);
    scratch.start_step(nullptr);
    const Tape::Guard guard(scratch);
    const NoGrad no_grad;
    const Tensor recorded = place(images, layout);
    input = recorded.id();
    output = model_(cast(recorded, dtype)).id();
  }
  const StepGraph& graph = scratch.graph();
  const std::vector<NodeId> convolutions = foldable_convolutions(graph);
  std::vector<bool> is_folded(convolutions.size());
  for (const NodeId conv : convolutions) {
    if (conv != kNoNode) is_folded[static_cast<std::size_t>(conv)] = true;
  }

  // Records the same nodes on the current step.
  std::vector<ValueId> copies(static_cast<std::size_t>(graph.value_count()), kNoValue);
  const auto copy_of = [&](ValueId value) {
    ValueId& copy = copies[static_cast<std::size_t>(value)];
    const std::int32_t slot = graph.value(value).slot;
    if (copy == kNoValue && slot >= 0) copy = tape.record_parameter(model_.context().parameter(slot));
    return copy;
  };
  for (const auto& [value, array] : scratch.inputs()) {
    copies[static_cast<std::size_t>(value)] = value == input ? place(images, layout).id() : tape.record_input(array);
  }
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    if (is_folded[static_cast<std::size_t>(id)]) continue;
    const NodeId conv = convolutions[static_cast<std::size_t>(id)];
    const Tape::Layer layer(tape, scratch.layer(conv != kNoNode ? conv : id));
    OpPtr op = graph.node(id).op;
    std::vector<ValueId> inputs;
    if (conv != kNoNode) {
      const Folded& pair = folded(graph, conv, id);
      Conv2dOptions options = attributes_of<ops::Conv2d>(graph, conv);
      options.activation = attributes_of<ops::BatchNormInference>(graph, id).activation;
      op = std::make_shared<ops::Conv2d>(options);
      inputs = {copy_of(graph.inputs(conv)[0]), cast(Tensor(pair.folded_weight()), dtype).id(),
                cast(Tensor(pair.folded_bias()), dtype).id()};
    } else {
      for (const ValueId value : graph.inputs(id)) inputs.push_back(copy_of(value));
    }
    const ValueId first = tape.record(std::move(op), inputs);
    for (int i = 0; i < graph.node(id).output_count; ++i) {
      copies[static_cast<std::size_t>(graph.output(id, i))] = first + i;
    }
  }
  return tape.tensor(copies[static_cast<std::size_t>(output)]);
}

}  // namespace braid
