#pragma once
// A model prepared for evaluation and prediction: batch norms are folded into the convolutions before them, which then
// also do the activation. Streams share the work as in training.

#include <map>
#include <utility>

#include "models/layers/module.h"

namespace braid {

class Inference {
 public:
  /// The model must outlive it.
  explicit Inference(Module& model) : model_(model) {}
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

  /// Records the model in evaluation mode on the current step, computed in `dtype` → logits. Images are f32 [N,H,W,C],
  /// and lie as place() takes them. Uses the folded tensors as of refresh(), or of the first call if there was none
  /// since.
  Tensor operator()(const Array& images, DType dtype = DType::f32, Layout layout = Layout::replicated);
  /// Folds the model's parameters as they are now. Waits for the running step.
  void refresh();

 private:
  /// A convolution and the batch norm after it as one convolution. Its bias may be null.
  struct Folded {
    Parameter *weight, *bias, *scale, *shift, *mean, *variance;
    double epsilon;
    OwnedTensors tensors;  ///< the weight and the bias of the one convolution
    Parameter& folded_weight() const { return *tensors.all()[0]; }
    Parameter& folded_bias() const { return *tensors.all()[1]; }
  };

  void fold(const Folded& pair);
  /// The pair of a batch norm and the convolution before it in a recorded graph.
  Folded& folded(const StepGraph& graph, NodeId conv_node, NodeId norm_node);

  Module& model_;
  std::map<std::pair<std::int32_t, std::int32_t>, Folded> folded_;  // by the slots of filter and scale
};

}  // namespace braid
