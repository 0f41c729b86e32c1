// Layers that are no part of a model of the registry.

#include "models/layers/layers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "runtime/session.h"
#include "tests/models/small_model.h"

namespace braid {
namespace {

/// From 4x4 pixels to logits: an upsampling, a transposed convolution, and both norms.
class Decoder final : public Module {
 public:
  explicit Decoder(Context& context)
      : Module(context),
        up_(add<UpsampleLayer>("up", InterpolateOptions{.scale = 2, .mode = Interpolation::bilinear})),
        deconv_(add<ConvTransposeLayer>("deconv", 6, 8, 4,
                                        ConvTranspose2dOptions{.stride = 2, .padding = 1, .groups = 2}, Bias::yes)),
        group_(add<GroupNormLayer>("group", 4, 8)),
        layer_(add<LayerNormLayer>("layer", 8)),
        places_(add<LayerNormLayer>("places", Shape{16, 16, 8})) {}
  Tensor forward(const Tensor& x) override { return global_avg_pool(places_(relu(layer_(group_(deconv_(up_(x))))))); }

 private:
  UpsampleLayer& up_;
  ConvTransposeLayer& deconv_;
  GroupNormLayer& group_;
  LayerNormLayer &layer_, &places_;
};

TEST_CASE("layers of a decoder have PyTorch's names, initial values and extents, and their parameters gradients") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Session session({.device = "cpu", .streams = 1, .threads = 1});
    Decoder decoder(session);
    std::vector<std::string> names;
    for (const Parameter* parameter : decoder.parameters()) {
      names.push_back(parameter->name());
      CHECK(parameter->weight_decay == (parameter->name() == "deconv.weight"));
    }
    CHECK(names == std::vector<std::string>{"deconv.weight", "deconv.bias", "group.weight", "group.bias",
                                            "layer.weight", "layer.bias", "places.weight", "places.bias"});
    const Array filter = session.read(*decoder.parameters()[0]), scale = session.read(*decoder.parameters()[2]);
    const Array bias = session.read(*decoder.parameters()[1]);
    for (const float b : bias.as<float>()) CHECK((b != 0 && std::abs(b) <= 1.0f / 8));
    CHECK(filter.shape() == Shape{6, 4, 4, 4});
    double squares = 0;
    for (const float w : filter.as<float>()) squares += static_cast<double>(w) * static_cast<double>(w);
    CHECK(squares / 384 == doctest::Approx(1.0 / (3 * 4 * 4 * 4)).epsilon(0.2));  // fan_in 64, as PyTorch counts it
    for (const float w : scale.as<float>()) CHECK(w == 1);

    Step step = session.step();
    const Tensor y = decoder(cast(noise({3, 4, 4, 6}), dtype));
    CHECK(y.shape() == Shape{3, 8});
    CHECK(y.dtype() == dtype);
    backward(cross_entropy(y, labels(3)));
    std::vector<Tensor> gradients;
    for (const Parameter* parameter : decoder.parameters()) {
      gradients.push_back(cast(gradient(*parameter), DType::f32).keep());
      CHECK(gradients.back().shape() == parameter->shape());
    }
    step.run();
    for (const Tensor& tensor : gradients) {
      double largest = 0;
      const Array array = tensor.array();
      for (const float g : array.as<float>()) largest = std::max(largest, std::abs(static_cast<double>(g)));
      CHECK(largest > 1e-9);
      CHECK(largest < 1e3);
    }
  }
}

TEST_CASE("a linear layer maps the last axis, of a vector, of rows and of more") {
  Session session({.device = "cpu", .streams = 1, .threads = 1});
  LinearLayer layer(session, 3, 2);
  Step step = session.step();
  const Tensor x = noise({2, 4, 3});
  const Tensor rows = layer(reshape(x, {8, 3})), blocks = layer(x), one = layer(noise({3}));
  step.run();
  CHECK(blocks.shape() == Shape{2, 4, 2});
  CHECK(one.shape() == Shape{2});
  const Array a = rows.array(), b = blocks.array();
  CHECK(std::ranges::equal(a.as<float>(), b.as<float>()));
}

}  // namespace
}  // namespace braid
