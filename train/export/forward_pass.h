#pragma once
// The forward pass of a model as a graph to read, not to run, and the order of its weights' elements in formats that
// put channels before pixels, where a flattened image has its features in another order.

#include <map>
#include <vector>

#include "models/layers/module.h"

namespace braid {

class ForwardPass {
 public:
  /// Records images [H,W,C]: in evaluation mode up to the logits, or in training mode, auxiliary classifiers
  /// included.
  ForwardPass(Module& model, const Shape& image, bool training = false);

  Tape tape;
  ValueId images = kNoValue;
  std::vector<ValueId> logits;  ///< the network's, then those of auxiliary classifiers
  const StepGraph& graph() const { return tape.graph(); }
};

/// Feature i, of the last axis, is feature order[i] in a format that puts channels before pixels. Empty: they agree.
using FeatureOrder = std::vector<std::int64_t>;

/// The order of the pixels [H,W,C] of a filter or of a flattened image.
FeatureOrder order_of_pixels(const Shape& hwc);

/// The order of features behind each flatten, followed through the ops of a forward pass.
class FeatureOrders {
 public:
  /// Throws Error if a weight reads features whose order is not known, or features of two orders.
  explicit FeatureOrders(const ForwardPass& pass);

  /// Whether the features of a value have another order, or an unknown one.
  bool differ(ValueId value) const { return unknown(value) || !of(value).empty(); }
  /// Whether they were lost in an op that is not followed.
  bool unknown(ValueId value) const { return unknown_[static_cast<std::size_t>(value)]; }
  /// The order of a weight of pixels or of features, by its slot; null for other weights, which are the same in both
  /// formats.
  const FeatureOrder* of_weight(std::int32_t slot) const;

 private:
  const FeatureOrder& of(ValueId value) const { return orders_[static_cast<std::size_t>(value)]; }
  void follow(NodeId node);
  /// Follows an op on images, which may read weights of pixels.
  void follow_images(NodeId node);
  /// Follows features that an op changes without mixing them.
  void follow_features(NodeId node, std::size_t first_input);
  void follow_reshape(NodeId node);
  void follow_concat(NodeId node);
  void set(ValueId value, const FeatureOrder& order) { orders_[static_cast<std::size_t>(value)] = order; }
  void set_unknown(ValueId value) { unknown_[static_cast<std::size_t>(value)] = true; }
  void set_weight(NodeId node, ValueId weight, const FeatureOrder& order);

  const ForwardPass& pass_;
  const StepGraph& graph_;
  std::vector<FeatureOrder> orders_;  // orders of values
  std::vector<bool> unknown_;         // likewise
  std::map<std::int32_t, FeatureOrder> weights_;
};

/// The shape of such a weight in the other format: [K,R,S,C] → [K,C,R,S], [H,W,C] → [C,H,W]. Others stay.
Shape channels_first(const Shape& shape);
/// The same elements, each at its feature's place in the other format.
Array channels_first(const Array& array, const FeatureOrder& order);
/// And back, as an array of this shape.
Array channels_last(const Array& array, const FeatureOrder& order, const Shape& shape);

}  // namespace braid
