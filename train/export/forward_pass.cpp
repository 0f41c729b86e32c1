#include "train/export/forward_pass.h"

#include <algorithm>

#include "ops/conv2d.h"
#include "ops/linear.h"
#include "ops/reshape.h"

namespace braid {

ForwardPass::ForwardPass(Module& model, const Shape& image, bool training) : tape(model.context()) {
  const ModuleMode mode(model, training);
  tape.start_step(nullptr);
  const Tape::Guard guard(tape);
  const NoGrad no_grad;
  // The content does not matter. One image can be too few for a batch norm.
  const Tensor input = Array(DType::f32, {2, image[0], image[1], image[2]});
  images = input.id();
  for (const Head& head : model.heads(input)) logits.push_back(head.logits.id());
  tape.close();
}

bool is_elementwise(const Op& op) {
  constexpr std::string_view kNames[] = {"relu", "relu6", "scale", "sum", "dropout"};
  return std::ranges::find(kNames, op.name()) != std::end(kNames);
}

Shape flattened_image(const StepGraph& graph, ValueId value) {
  for (NodeId producer = graph.value(value).producer; producer != kNoNode; producer = graph.value(value).producer) {
    const Op& op = *graph.node(producer).op;
    const Shape& shape = graph.value(value).desc.shape;
    value = graph.inputs(producer).front();
    const Shape& before = graph.value(value).desc.shape;
    if (dynamic_cast<const ops::Reshape*>(&op) != nullptr) {
      // Of one pixel, or of one channel, the order is the same wherever channels come.
      const bool flattens = before.rank() == 4 && shape.rank() == 2 && shape[0] == before[0] &&
                            before[1] * before[2] > 1 && before[3] > 1;
      return flattens ? Shape{before[1], before[2], before[3]} : Shape{};
    }
    if (!is_elementwise(op)) return {};
  }
  return {};
}

std::map<std::int32_t, Shape> weights_of_pixels(const StepGraph& graph) {
  std::map<std::int32_t, Shape> weights;
  for (const Node& node : graph.nodes()) {
    const std::span<const ValueId> inputs = graph.inputs(node);
    if (inputs.size() < 2 || graph.value(inputs[1]).slot < 0) continue;
    const Value& weight = graph.value(inputs[1]);
    const Op* const op = node.op.get();
    const bool convolves =
        dynamic_cast<const ops::Conv2d*>(op) != nullptr || dynamic_cast<const ops::Conv2dBackwardData*>(op) != nullptr;
    if (convolves) weights[weight.slot] = weight.desc.shape;
    if (dynamic_cast<const ops::Linear*>(op) == nullptr) continue;
    const Shape image = flattened_image(graph, inputs[0]);
    if (image.rank() == 3) weights[weight.slot] = {weight.desc.shape[0], image[0], image[1], image[2]};
  }
  return weights;
}

Array swap_last_axes(const Array& array, std::int64_t n, std::int64_t a, std::int64_t b, const Shape& shape) {
  Array swapped(DType::f32, shape);
  const float* from = array.as<float>().data();
  float* to = swapped.as<float>().data();
  for (std::int64_t i = 0; i < n; ++i, from += a * b) {
    for (std::int64_t y = 0; y < b; ++y) {
      for (std::int64_t x = 0; x < a; ++x) *to++ = from[x * b + y];
    }
  }
  return swapped;
}

Array channels_first(const Array& array, const Shape& krsc) {
  const Shape shape = array.shape().rank() == 4 ? Shape{krsc[0], krsc[3], krsc[1], krsc[2]} : array.shape();
  return swap_last_axes(array, krsc[0], krsc[1] * krsc[2], krsc[3], shape);
}

Array channels_last(const Array& array, const Shape& krsc) {
  return swap_last_axes(array, krsc[0], krsc[3], krsc[1] * krsc[2], array.shape().rank() == 4 ? krsc : array.shape());
}

}  // namespace braid
