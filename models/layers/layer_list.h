#pragma once
// A network given as a list of layers, each of which reads earlier ones: `model: {layers: [...]}` in a config makes
// one. Channels and features of inputs follow from the shape of an image.

#include <optional>

#include "models/layers/layers.h"

namespace braid::models {

/// A layer of the list. LayerList::options says which of the options from `channels` on a type has; it ignores the
/// others.
struct LayerSpec {
  static constexpr std::int64_t kSame = -1;  ///< as padding: what keeps height and width at stride 1

  std::string type = {};                  ///< see LayerList::types()
  std::string name = {};                  ///< prefix of its parameters, as in "NAME.weight"; empty: its number, from 0
  std::vector<std::string> from = {};     ///< names of what it reads, "input" for the images; empty: the layer before
  std::int64_t channels = 0;              ///< channels of the output
  std::int64_t size = 0;                  ///< features of the output, 0 for the number of classes; or height and width
  std::vector<std::int64_t> kernel = {};  ///< height and width, or one number for both
  std::vector<std::int64_t> stride = {};  ///< likewise; empty: 1 in convolutions, the kernel in pools
  std::vector<std::int64_t> padding = {0};
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  std::string activation = "none";  ///< see LayerList::activations()
  double p = 0.5;
  double slope = 0.01;
  double scale = 2;
  std::string mode = "nearest";
};

/// A mistake in a list of layers: the layer, which of its members, and what is wrong with it.
struct LayerMistake {
  std::size_t layer;
  std::string_view member;
  std::string what;
};

/// images [N,H,W,C] → logits [N,classes]
class LayerList final : public Module {
 public:
  /// Makes a network for images [H,W,C]. Throws Error that names the layer if there is a mistake, or shapes do not
  /// agree.
  LayerList(Context& context, std::vector<LayerSpec> layers, const Shape& image, std::int64_t classes);
  Tensor forward(const Tensor& x) override;

  /// The values of `type`.
  static std::vector<std::string> types();
  /// The options of a type. Throws Error if there is no such type.
  static std::vector<std::string> options(std::string_view type);
  /// The values of `activation`: "none" and names of functions.
  static std::vector<std::string> activations();
  /// The first mistake that shows without the shape of an image, if there is one.
  static std::optional<LayerMistake> find_mistake(std::span<const LayerSpec> layers);

 private:
  struct Builder;
  struct Layer {
    Module* module;
    std::vector<std::size_t> from;        // 0 is the image, i + 1 the layer i
    Tensor (*activation)(const Tensor&);  // null: none, or the module does it
  };
  static Tensor run(const Layer& layer, std::span<const Tensor> inputs);

  std::int64_t channels_;
  std::vector<Layer> layers_;
};

}  // namespace braid::models
