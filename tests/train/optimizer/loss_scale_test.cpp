// A linear layer in f16 whose loss is scaled. The gradient of its output is the scale itself, so a scale above 65504,
// the largest number of f16, overflows.

#include "train/loss_scale.h"

#include <doctest/doctest.h>

#include "autograd/functions.h"
#include "runtime/session.h"
#include "train/optimizer.h"

namespace braid {
namespace {

enum class Rule { sgd, adam };

struct LossScaleFixture {
  Session session{{.device = "cpu", .streams = 2}};
  Parameter& w = session.add("w", {DType::f32, {1, 3}}, ValueKind::parameter);
  LossScale scale;
  std::unique_ptr<Optimizer> optimizer;

  explicit LossScaleFixture(Rule rule, float initial = LossScale::kInitial, const LossScaleOptions& options = {})
      : scale(session, options, initial) {
    session.write(w, Array::from<float>({1, -2, 0.5f}, {1, 3}));
    const std::vector<Parameter*> parameters{&w};
    if (rule == Rule::sgd) {
      optimizer = std::make_unique<SGD>(parameters, SGD::Options{.lr = 0.25, .momentum = 0.5, .weight_decay = 0.125});
    } else {
      optimizer = std::make_unique<Adam>(parameters, Adam::Options{.lr = 0.25, .weight_decay = 0.125});
    }
  }

  /// Trains on (x, 2x, -x); the loss, as it is without a scale.
  double train(float x) {
    Step step = session.step();
    const Array input = Array::from<float>({x, 2 * x, -x}, {1, 3});
    const Tensor loss = cast(linear(cast(input, DType::f16), cast(w, DType::f16)), DType::f32);
    backward(scale(loss));
    optimizer->step(&scale);
    step.run();
    return loss.item();
  }

  float current() { return session.read(scale.scale()).as<float>()[0]; }
  std::int32_t updates() { return session.read(scale.updates()).as<std::int32_t>()[0]; }
  /// The bits of weights and moments.
  std::vector<std::byte> bits() {
    std::vector<std::byte> list;
    for (const Parameter* parameter : session.parameters()) {
      if (parameter->name().starts_with("loss_scale")) continue;
      const Array array = session.read(*parameter);
      list.insert(list.end(), array.data(), array.data() + array.bytes());
    }
    return list;
  }
};

TEST_CASE("a step whose gradients overflow is skipped to the bit, and halves the scale") {
  for (const Rule rule : {Rule::sgd, Rule::adam}) {
    LossScaleFixture f(rule, 0x1p14f);
    f.train(1);
    const auto before = f.bits();
    CHECK(f.updates() == 1);
    CHECK(f.train(7) == f.train(7));  // nothing was learned from 16384·14 > 65504, nor from 8192·14
    CHECK(f.bits() == before);
    CHECK(f.current() == 0x1p12f);
    CHECK(f.updates() == 1);
    f.train(7);
    CHECK(f.bits() != before);
    CHECK(f.updates() == 2);
  }
}

TEST_CASE("a skipped step leaves no trace but the scale: Adam's bias correction does not count it") {
  for (const Rule rule : {Rule::sgd, Rule::adam}) {
    LossScaleFixture skips(rule, 0x1p18f), straight(rule, 0x1p15f);
    for (int i = 0; i < 3; ++i) skips.train(0.5f);
    CHECK(skips.updates() == 0);
    for (int i = 0; i < 4; ++i) CHECK(skips.train(0.5f) == straight.train(0.5f));
    CHECK(skips.bits() == straight.bits());
  }
}

TEST_CASE("training with a scaled loss gives what training without one gives") {
  for (const Rule rule : {Rule::sgd, Rule::adam}) {
    LossScaleFixture scaled(rule, 0x1p10f), unscaled(rule, 1);
    for (int i = 0; i < 4; ++i) CHECK(scaled.train(0.5f) == unscaled.train(0.5f));
    CHECK(scaled.bits() == unscaled.bits());  // powers of two change no digit
  }
}

TEST_CASE("a skipped step is the same plan: the host decides nothing") {
  LossScaleFixture f(Rule::adam, 0x1p17f);
  for (int i = 0; i < 5; ++i) f.train(0.5f);
  CHECK(f.updates() == 3);
  CHECK(f.session.stats().plans == 1);
}

TEST_CASE("a scale of 0 or less is refused") {
  Session session({.device = "cpu"});
  CHECK_THROWS_WITH_AS(LossScale(session, {}, 0), "[loss_scale] expected a scale above 0, got 0", Error);
}

TEST_CASE("a loss scale releases its state") {
  Session session({.device = "cpu"});
  { const LossScale scale(session); }
  const Step step = session.step();
  CHECK(session.stats().persistent_bytes == 0);
}

}  // namespace
}  // namespace braid
