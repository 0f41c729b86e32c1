#pragma once
// The forward pass of a model as a graph that is read and not run, and the order of its weights' elements in formats
// that put channels before pixels.

#include <map>

#include "models/module.h"

namespace braid {

class ForwardPass {
 public:
  /// Records one image [H,W,C]: in evaluation mode up to the logits, or in training mode, auxiliary classifiers
  /// included.
  ForwardPass(Module& model, const Shape& image, bool training = false);

  Tape tape;
  ValueId images = kNoValue, logits = kNoValue;
  const StepGraph& graph() const { return tape.graph(); }
};

/// Whether the op gives each element of its first input, changed by itself, the same place in its output.
bool is_elementwise(const Op& op);

/// [H,W,C] of the images that a value holds one after the other, as a fully connected layer reads them after a flatten;
/// else a scalar's shape.
Shape flattened_image(const StepGraph& graph, ValueId value);

/// The weights that hold pixels, by slot: filters [K,R,S,C], and as [K,H,W,C] those of fully connected layers that read
/// flattened images.
std::map<std::int32_t, Shape> weights_of_pixels(const StepGraph& graph);

/// f32 elements [n,a,b] → [n,b,a].
Array swap_last_axes(const Array& array, std::int64_t n, std::int64_t a, std::int64_t b);
/// [K,R,S,C] → [K,C,R,S]
inline Array channels_first(const Array& array, const Shape& krsc) {
  return swap_last_axes(array, krsc[0], krsc[1] * krsc[2], krsc[3]);
}
/// [K,C,R,S] → [K,R,S,C]
inline Array channels_last(const Array& array, const Shape& krsc) {
  return swap_last_axes(array, krsc[0], krsc[3], krsc[1] * krsc[2]);
}

}  // namespace braid
