// Models compute in the type of their images.

#include <doctest/doctest.h>

#include <cmath>

#include "models/registry.h"
#include "runtime/session.h"
#include "tests/models/small_model.h"

namespace braid {
namespace {

TEST_CASE("every model computes in the type of its images, with parameters and statistics in f32") {
  for (const std::string& name : some_models()) {
    CAPTURE(name);
    Session session({.device = "cpu", .streams = 1});
    const auto model = models::make_model(name, session, small_model({20, 20, 3}));
    const Step step = session.step();
    const Tensor images = cast(noise({4, 20, 20, 3}), DType::bf16);
    for (const Head& head : model->heads(images)) CHECK(head.logits.dtype() == DType::bf16);
    for (const Tensor& loss : record_gradients(name, *model, images)) CHECK(loss.dtype() == DType::f32);
    for (const Parameter* parameter : model->parameters()) {
      CAPTURE(parameter->name());
      const ValueId gradient = session.tape().gradient(*parameter);
      REQUIRE(gradient != kNoValue);
      const Parameter& computed_with = parameter->rounded() != nullptr ? *parameter->rounded() : *parameter;
      CHECK(session.tape().graph().value(gradient).desc == computed_with.desc());
      CHECK(parameter->desc().dtype == DType::f32);
    }
    for (const Parameter* parameter : session.parameters()) {
      CHECK(parameter->desc().dtype == (parameter->original() != nullptr ? DType::bf16 : DType::f32));
    }
  }
}

TEST_CASE("a step of a model in f32 has no cast") {
  Session session({.device = "cpu", .streams = 1});
  const auto model = models::make_model("googlenet", session, small_model({20, 20, 3}));
  const Step step = session.step();
  backward(training_loss(model->heads(cast(noise({4, 20, 20, 3}), DType::f32)), labels(4)));
  for (const Node& node : session.tape().graph().nodes()) CHECK(node.op->name() != "cast");
}

TEST_CASE("logits in f16 and bf16 differ from those in f32 by roundings") {
  for (const std::string name : {"resnet20", "googlenet", "mobilenet_v2", "randwire", "vgg16_bn"}) {
    if (testing::kOnce && name != "resnet20") continue;
    CAPTURE(name);
    Session session({.device = "cpu", .streams = 2});
    const auto model = models::make_model(name, session, small_model({20, 20, 3}));
    model->eval();
    const auto logits = [&](DType dtype) {
      Step step = session.step();
      return cast((*model)(cast(noise({8, 20, 20, 3}), dtype)), DType::f32).array();
    };
    const Array exact = logits(DType::f32);
    for (const auto& [dtype, roundoff] : {std::pair{DType::bf16, 0x1p-8}, {DType::f16, 0x1p-11}}) {
      CAPTURE(dtype);
      const Array rounded = logits(dtype);
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < exact.as<float>().size(); ++i) {
        const auto x = static_cast<double>(exact.as<float>()[i]), y = static_cast<double>(rounded.as<float>()[i]);
        error += (x - y) * (x - y);
        norm += x * x;
      }
      // Weights and activations of up to 50 layers are rounded, and independent errors add up as a root: about 10.
      CHECK(error > 0);
      CHECK(std::sqrt(error / norm) < 16 * roundoff);
    }
  }
}

}  // namespace
}  // namespace braid
