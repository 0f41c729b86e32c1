// Training in bf16 and f16 comes to what training in f32 comes to.

#include <doctest/doctest.h>

#include <cmath>

#include "runtime/session.h"
#include "tests/models/small_model.h"
#include "train/run/factories.h"

namespace braid {
namespace {

/// Losses of a model that learns eight images by heart.
std::vector<double> losses(const std::string& name, DType dtype, int steps) {
  Session session({.device = "cpu", .streams = 2, .width = 1});
  const auto model = models::make_model(name, session, small_model({20, 20, 3}));
  SGD sgd(model->parameters(), {.lr = 0.05, .momentum = 0.9});
  const auto loss_scale = make_loss_scale(dtype, session);
  std::vector<double> list;
  for (int i = 0; i < steps; ++i) {
    Step step = session.step();
    const Tensor loss = training_loss(model->heads(cast(noise({8, 20, 20, 3}), dtype)), labels(8));
    backward(loss_scale == nullptr ? loss : (*loss_scale)(loss));
    sgd.step(loss_scale.get());
    step.run();
    list.push_back(loss.item());
  }
  return list;
}

TEST_CASE("small networks learn as much in bf16 and f16 as in f32") {
  for (const std::string name : {"resnet20", "googlenet"}) {
    CAPTURE(name);
    const std::vector<double> f32 = losses(name, DType::f32, 30);
    CHECK(f32.back() < 0.3 * f32.front());
    for (const auto& [dtype, roundoff] : {std::pair{DType::bf16, 0x1p-8}, {DType::f16, 0x1p-11}}) {
      CAPTURE(dtype);
      const std::vector<double> low = losses(name, dtype, 30);
      // A mean over roundings at first; then each training takes a way of its own to the same end.
      CHECK(std::abs(low.front() - f32.front()) < roundoff * f32.front());
      CHECK(std::abs(low.back() - f32.back()) < 0.1 * f32.front());
    }
  }
}

}  // namespace
}  // namespace braid
