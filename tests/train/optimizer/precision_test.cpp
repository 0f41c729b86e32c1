// Training in bf16 and f16 converges like training in f32.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "runtime/session.h"
#include "tests/effort.h"
#include "tests/models/small_model.h"
#include "tests/ops/interpreter.h"
#include "train/run/factories.h"

namespace braid {
namespace {

/// Losses of a model that learns eight images by heart.
std::vector<double> losses(const std::string& name, DType dtype, int steps) {
  Session session({.device = "cpu", .streams = 2, .intra_op_threads = 1});
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

/// Weights and moments after some steps with each optimizer; with casts of every parameter, or with copies.
std::vector<Array> trained(DType dtype, bool copies, bool adam, int turns, std::int64_t& casts) {
  Session session({.device = "cpu", .streams = 2, .intra_op_threads = 1});
  const auto model = models::make_model("resnet20", session, small_model({20, 20, 3}));
  std::unique_ptr<Optimizer> optimizer;
  if (adam) {
    optimizer = std::make_unique<AdamW>(model->parameters(), Adam::Options{.weight_decay = 0.1});
  } else {
    optimizer = std::make_unique<SGD>(model->parameters(), SGD::Options{.momentum = 0.9, .weight_decay = 1e-4});
  }
  if (!copies) {
    for (Parameter* parameter : model->parameters()) session.drop_rounded(*parameter);
  }
  const auto loss_scale = make_loss_scale(dtype, session);
  for (int turn = 0; turn < turns; ++turn) {
    Step step = session.step();
    for (int part = 0; part < 2; ++part) {  // the second computes with what the first has updated
      const Tensor loss = training_loss(model->heads(cast(noise({8, 20, 20, 3}), dtype)), labels(8));
      backward(loss_scale == nullptr ? loss : (*loss_scale)(loss));
      optimizer->step(loss_scale.get());
    }
    casts = std::ranges::count_if(session.tape().graph().nodes(),
                                  [](const Node& node) { return node.op->name() == "cast"; });
    step.run();
  }
  std::vector<Array> tensors;
  for (const Parameter* parameter : session.parameters()) {
    if (parameter->original() == nullptr) tensors.push_back(session.read(*parameter));
    if (parameter->rounded() == nullptr) continue;
    const Array wide = session.read(*parameter), copy = session.read(*parameter->rounded());
    Step step = session.step();
    const Tensor rounded = cast(cast(wide, dtype), DType::f32), of_copy = cast(copy, DType::f32);
    CHECK(testing::same_bytes(rounded.array(), of_copy.array()));
  }
  return tensors;
}

TEST_CASE("optimizers update parameters and their copies bit for bit as if the parameters were cast in every step") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool adam : {false, true}) {
      CAPTURE(dtype);
      CAPTURE(adam);
      std::int64_t with_copies = 0, with_casts = 0;
      const std::vector<Array> a = trained(dtype, true, adam, 3, with_copies);
      const std::vector<Array> b = trained(dtype, false, adam, 3, with_casts);
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i) CHECK(testing::same_bytes(a[i], b[i]));
      CHECK(with_copies == 2 * 3);  // the images, the logits, and the gradient of the logits
      CHECK(with_casts > 80);
    }
  }
}

TEST_CASE("small networks learn as much in bf16 and f16 as in f32" * doctest::skip(testing::kOnce)) {
  for (const std::string name : {"resnet20", "googlenet"}) {
    CAPTURE(name);
    const std::vector<double> f32 = losses(name, DType::f32, 30);
    CHECK(f32.back() < 0.3 * f32.front());
    for (const auto& [dtype, roundoff] : {std::pair{DType::bf16, 0x1p-8}, {DType::f16, 0x1p-11}}) {
      CAPTURE(dtype);
      const std::vector<double> low = losses(name, dtype, 30);
      // A mean over roundings at first; then each training takes its own path to the same end.
      CHECK(std::abs(low.front() - f32.front()) < roundoff * f32.front());
      CHECK(std::abs(low.back() - f32.back()) < 0.1 * f32.front());
    }
  }
}

}  // namespace
}  // namespace braid
