#pragma once
// A randomly wired network (Xie et al., 2019), the small regime of table 1: a stem, three stages that are random graphs
// WS(4, 0.75) of 32 nodes with 78, 156 and 312 channels, and a classifier. About 5.6 million parameters; how many
// exactly depends on how many nodes of the graphs have no input.
//
// A node adds up its inputs with weights between 0 and 1, which are learned (none for a single input, because the
// normalisation would undo it), then applies ReLU, a separable 3x3 convolution and batch normalisation. Nodes without
// input read the stage's input with stride 2; the stage's output is the mean of the nodes that no other node reads.
//
// Stem: two 3x3 convolutions with stride 2; for small images with stride 1. The last 1x1 convolution is followed by a
// ReLU, which the paper leaves open.
//
// Convolutions start with He's initialisation, the gates at sigmoid(0).

#include "models/layers/layers.h"
#include "models/zoo/wired/random_graph.h"

namespace braid::models {

struct RandWireOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 3;  ///< channels of the input image
  Stem stem = Stem::small_image;
  double width = 1;              ///< multiplies the channels of all layers
  std::uint64_t graph_seed = 1;  ///< what the graphs are drawn from
};

/// The graph of a stage, counted from 0.
RandomGraph randwire_graph(std::uint64_t graph_seed, int stage);

/// images [N,H,W,channels] → logits [N,classes]
class RandWire final : public Chain {
 public:
  using Options = RandWireOptions;
  explicit RandWire(Context& context, const RandWireOptions& options = {});
};

inline RandWire randwire(Context& context, const RandWireOptions& options = {}) { return RandWire(context, options); }

}  // namespace braid::models
