#include "train/export/forward_pass.h"

#include <algorithm>

#include "ops/conv/conv2d.h"
#include "ops/elementwise/reduce.h"
#include "ops/elementwise/weighted_sum.h"
#include "ops/layout/concat.h"
#include "ops/layout/reshape.h"
#include "ops/matmul/linear.h"
#include "ops/norm/group_norm.h"

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

namespace {

std::int64_t features(const Shape& shape) { return shape.rank() == 0 ? 1 : shape[shape.rank() - 1]; }

/// Whether the op treats all features equally, one by one or together.
bool keeps_features(const Op& op, const Shape& x) {
  constexpr std::string_view kNames[] = {"relu",
                                         "relu6",
                                         "scale",
                                         "sum",
                                         "cast",
                                         "dropout",
                                         "elementwise",
                                         "weighted_sum",
                                         "softmax",
                                         "batch_norm",
                                         "batch_norm_inference"};
  if (const auto* norm = dynamic_cast<const ops::GroupNorm*>(&op)) return norm->attributes().groups == 1;
  if (const auto* reduce = dynamic_cast<const ops::Reduce*>(&op)) {
    return std::ranges::count(reduce->attributes().axes.extents(), x.rank() - 1) == 0;
  }
  return std::ranges::find(kNames, op.name()) != std::end(kNames);
}

/// Moves element i of each row to order[i], or back.
Array moved(const Array& array, const FeatureOrder& order, const Shape& shape, bool back) {
  Array result(DType::f32, shape);
  const std::span<const float> from = array.as<float>();
  const std::span<float> to = result.as<float>();
  if (order.empty()) std::ranges::copy(from, to.begin());
  for (std::size_t row = 0; row < from.size() && !order.empty(); row += order.size()) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto other = static_cast<std::size_t>(order[i]);
      to[row + (back ? i : other)] = from[row + (back ? other : i)];
    }
  }
  return result;
}

}  // namespace

FeatureOrder order_of_pixels(const Shape& hwc) {
  const std::int64_t pixels = hwc[0] * hwc[1], channels = hwc[2];
  if (pixels == 1 || channels == 1) return {};
  FeatureOrder order;
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (std::int64_t channel = 0; channel < channels; ++channel) order.push_back(channel * pixels + pixel);
  }
  return order;
}

FeatureOrders::FeatureOrders(const ForwardPass& pass)
    : pass_(pass),
      graph_(pass.graph()),
      orders_(static_cast<std::size_t>(graph_.value_count())),
      unknown_(orders_.size()) {
  for (NodeId node = 0; node < graph_.node_count(); ++node) follow(node);
}

const FeatureOrder* FeatureOrders::of_weight(std::int32_t slot) const {
  const auto found = weights_.find(slot);
  return found == weights_.end() ? nullptr : &found->second;
}

void FeatureOrders::follow(NodeId node) {
  const Op& op = *graph_.node(node).op;
  const std::span<const ValueId> inputs = graph_.inputs(node);
  if (inputs.empty()) return;
  const Shape& x = graph_.value(inputs[0]).desc.shape;
  const bool convolves =
      dynamic_cast<const ops::Conv2d*>(&op) != nullptr || dynamic_cast<const ops::Conv2dBackwardData*>(&op) != nullptr;
  if (convolves && graph_.value(inputs[1]).slot >= 0) {
    const Shape& filter = graph_.value(inputs[1]).desc.shape;
    set_weight(node, inputs[1], order_of_pixels({filter[1], filter[2], filter[3]}));
  } else if (dynamic_cast<const ops::Reshape*>(&op) != nullptr) {
    follow_reshape(node);
  } else if (dynamic_cast<const ops::Linear*>(&op) != nullptr) {
    set_weight(node, inputs[1], of(inputs[0]));
  } else if (std::ranges::none_of(inputs, [&](ValueId input) { return differ(input); })) {
    follow_images(node);
  } else if (dynamic_cast<const ops::Concat*>(&op) != nullptr) {
    follow_concat(node);
  } else if (keeps_features(op, x)) {
    follow_features(node, dynamic_cast<const ops::WeightedSum*>(&op) != nullptr ? 1 : 0);
  } else if (dynamic_cast<const ops::Reduce*>(&op) == nullptr || unknown(inputs[0])) {
    // Any other reduction makes one number of all features, whatever their order.
    set_unknown(graph_.output(node, 0));
  }
}

void FeatureOrders::follow_images(NodeId node) {
  if (graph_.value(graph_.output(node, 0)).desc.shape.rank() != 4) return;
  for (const ValueId input : graph_.inputs(node)) {
    const Value& value = graph_.value(input);
    const std::span<const std::int64_t> extents = value.desc.shape.extents();
    if (value.slot >= 0 && extents.size() >= 3) set_weight(node, input, order_of_pixels(Shape(extents.last(3))));
  }
}

void FeatureOrders::follow_features(NodeId node, std::size_t first_input) {
  const ValueId y = graph_.output(node, 0);
  const std::span<const ValueId> inputs = graph_.inputs(node).subspan(first_input);
  const ValueId first = *std::ranges::find_if(inputs, [&](ValueId input) { return differ(input); });
  const FeatureOrder order = of(first);
  for (const ValueId input : inputs) {
    const Value& value = graph_.value(input);
    if (features(value.desc.shape) == 1) continue;
    if (unknown(input) || features(value.desc.shape) != std::ssize(order)) return set_unknown(y);
    if (value.slot >= 0) {
      set_weight(node, input, order);
    } else if (of(input) != order) {
      return set_unknown(y);
    }
  }
  set(y, order);
}

void FeatureOrders::follow_reshape(NodeId node) {
  const ValueId input = graph_.inputs(node)[0], y = graph_.output(node, 0);
  const Shape &before = graph_.value(input).desc.shape, &after = graph_.value(y).desc.shape;
  const auto pixels_of = [](const Shape& shape) {
    return shape.rank() == 4 ? order_of_pixels({shape[1], shape[2], shape[3]}) : FeatureOrder{};
  };
  if (unknown(input)) return set_unknown(y);
  if (of(input).empty()) {
    const bool flattens = before.rank() == 4 && features(after) == before[1] * before[2] * before[3];
    if (flattens) set(y, pixels_of(before));
    if (before.rank() == 2 && features(after) != features(before) && !pixels_of(after).empty()) set_unknown(y);
  } else if (features(after) == features(before)) {
    set(y, of(input));
  } else if (pixels_of(after) != of(input)) {  // else it is the image again
    set_unknown(y);
  }
}

void FeatureOrders::follow_concat(NodeId node) {
  FeatureOrder order;
  for (const ValueId input : graph_.inputs(node)) {
    if (unknown(input)) return set_unknown(graph_.output(node, 0));
    const std::int64_t begin = std::ssize(order), count = features(graph_.value(input).desc.shape);
    const FeatureOrder& own = of(input);
    for (std::int64_t i = 0; i < count; ++i) {
      order.push_back(begin + (own.empty() ? i : own[static_cast<std::size_t>(i)]));
    }
  }
  set(graph_.output(node, 0), order);
}

void FeatureOrders::set_weight(NodeId node, ValueId weight, const FeatureOrder& order) {
  const std::int32_t slot = graph_.value(weight).slot;
  const bool is_known = std::ranges::none_of(graph_.inputs(node), [&](ValueId input) { return unknown(input); });
  const bool is_same =
      is_known && (slot < 0 ? order.empty() : weights_.try_emplace(slot, order).first->second == order);
  BRAID_CHECK(is_same, Error, "[export] the layer '", pass_.tape.layer(node),
              "' reads a flattened image in an order that cannot be followed: ", *graph_.node(node).op,
              "; flatten the image right before it, or use global pooling");
}

Shape channels_first(const Shape& shape) {
  if (shape.rank() == 4) return {shape[0], shape[3], shape[1], shape[2]};
  return shape.rank() == 3 ? Shape{shape[2], shape[0], shape[1]} : shape;
}

Array channels_first(const Array& array, const FeatureOrder& order) {
  return moved(array, order, channels_first(array.shape()), false);
}

Array channels_last(const Array& array, const FeatureOrder& order, const Shape& shape) {
  return moved(array, order, shape, true);
}

}  // namespace braid
