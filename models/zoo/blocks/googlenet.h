#pragma once
// GoogLeNet (Szegedy et al., 2015) with batch normalisation, as torchvision has it: the branch that is 5x5 in the paper
// has a 3x3 convolution.
//
// Stem: a 7x7 convolution with stride 2 and a max pool; for small images a 3x3 convolution with stride 1 and no pool.
// With `auxiliary` there are two more classifiers in training, each of weight 0.3.
//
// Convolutions start with He's initialisation, linear layers normal with deviation 0.01.

#include "models/layers/mixed.h"

namespace braid::models {

struct GoogLeNetOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 3;      ///< channels of the input image
  Stem stem = Stem::small_image;  ///< images of at least 8x8 pixels, or 31x31 with Stem::image
  double width = 1;               ///< multiplies the channels of all layers
  bool auxiliary = false;
};

/// images [N,H,W,channels] → logits [N,classes]
class GoogLeNet final : public Module {
 public:
  using Options = GoogLeNetOptions;
  explicit GoogLeNet(Context& context, const GoogLeNetOptions& options = {});
  Tensor forward(const Tensor& x) override { return classify(x, nullptr); }
  /// The main classifier, and in training with `auxiliary` the one after inception4a and the one after inception4d.
  std::vector<Head> heads(const Tensor& x) override;

 private:
  /// An inception module and what follows it.
  struct Stage {
    Mixed* module;
    Chain* auxiliary;
    std::int64_t pool;  ///< window of a max pool with stride 2; 0 for none
  };
  /// The main logits. Adds those of the auxiliary classifiers to `heads`, if it is not null.
  Tensor classify(const Tensor& x, std::vector<Head>* heads);

  GoogLeNetOptions options_;
  Module* conv1_;
  Module* conv2_;
  Module* conv3_;
  std::vector<Stage> stages_;
  DropoutLayer* dropout_;
  LinearLayer* classifier_;
};

inline GoogLeNet googlenet(Context& context, const GoogLeNetOptions& options = {}) {
  return GoogLeNet(context, options);
}

}  // namespace braid::models
