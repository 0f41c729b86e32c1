#pragma once
// The forward pass of a model as a graph that is read and not run, and the order of its weights' elements in formats
// that put channels before pixels.

#include <map>

#include "models/module.h"

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

/// Whether the op gives each element of its first input, changed by itself, the same place in its output.
bool is_elementwise(const Op& op);

/// [H,W,C] of the images that a value holds one after the other, as a fully connected layer reads them after a flatten;
/// else a scalar's shape.
Shape flattened_image(const StepGraph& graph, ValueId value);

/// The weights that hold pixels, by slot: filters [K,R,S,C], and as [K,H,W,C] those of fully connected layers that read
/// flattened images.
std::map<std::int32_t, Shape> weights_of_pixels(const StepGraph& graph);

/// f32 elements [n,a,b] → [n,b,a], called an array of `shape`.
Array swap_last_axes(const Array& array, std::int64_t n, std::int64_t a, std::int64_t b, const Shape& shape);
/// [K,R,S,C], or the same with fewer axes → [K,C,R,S]
Array channels_first(const Array& array, const Shape& krsc);
/// [K,C,R,S] → [K,R,S,C], likewise
Array channels_last(const Array& array, const Shape& krsc);

}  // namespace braid
