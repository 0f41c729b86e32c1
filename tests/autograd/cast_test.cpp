// Casts: how a graph in mixed precision reaches its f32 parameters.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "autograd/functions.h"
#include "ops/optimizer/optimizer.h"
#include "runtime/session.h"

namespace braid {
namespace {

struct Fixture {
  Session session{{.device = "cpu", .streams = 2}};
  Parameter& w = session.add("w", {DType::f32, {2, 3}}, ValueKind::parameter);
  const Array x = Array::from<float>({1, -2, 3}, {1, 3});

  Fixture() { session.write(w, Array::from<float>({1, 2, 3, 4, 5, 6}, {2, 3})); }

  std::int64_t casts() {
    return std::ranges::count_if(session.tape().graph().nodes(),
                                 [](const Node& node) { return node.op->name() == "cast"; });
  }
  ValueId gradient() { return session.tape().gradient(w); }
};

TEST_CASE("the gradient of a parameter's copy has the copy's type, one that goes back through a cast the parameter's") {
  Fixture f;
  for (const DType dtype : {DType::bf16, DType::f16}) {  // the copy is bf16
    Step step = f.session.step();
    const Tensor y = linear(cast(f.x, dtype), cast(f.w, dtype));
    const Tensor loss = cast(linear(y, cast(Array::from<float>({0.5f, 4}, {1, 2}), dtype)), DType::f32);
    backward(loss);
    const Tensor gradient = braid::gradient(f.w).keep();
    const Tensor wide = cast(gradient, DType::f32);
    CHECK(gradient.dtype() == (dtype == DType::bf16 ? DType::bf16 : DType::f32));
    step.run();
    CHECK(loss.item() == 0.5 * 6 + 4 * 12);
    const Tensor& readable = gradient.dtype() == DType::f32 ? gradient : wide;
    CHECK(std::ranges::equal(readable.array().as<float>(), std::vector<float>{0.5f, -1, 1.5f, 4, -8, 12}));
  }
}

TEST_CASE("a parameter that is used several times has one copy, whose gradients add up") {
  Fixture f;
  Step step = f.session.step();
  const Tensor x = cast(f.x, DType::bf16);
  const Tensor y = linear(x, cast(f.w, DType::bf16)) + linear(x, cast(f.w, DType::bf16));
  CHECK(f.casts() == 1);  // x
  backward(cast(linear(y, cast(Array::from<float>({1, 1}, {1, 2}), DType::bf16)), DType::f32));
  CHECK(f.casts() == 1 + 2 + 1);  // the last weight and the loss; its gradient
  const Tensor gradient = cast(braid::gradient(f.w), DType::f32);
  step.run();
  CHECK(std::ranges::equal(gradient.array().as<float>(), std::vector<float>{2, -4, 6, 2, -4, 6}));
}

TEST_CASE("a parameter used in f32 and by its copy gets the sum of both gradients in f32") {
  Fixture f;
  Step step = f.session.step();
  const Tensor y = linear(f.x, f.w) + cast(linear(cast(f.x, DType::bf16), cast(f.w, DType::bf16)), DType::f32);
  backward(linear(y, Array::from<float>({1, 1}, {1, 2})));
  const Tensor gradient = braid::gradient(f.w).keep();
  CHECK(gradient.dtype() == DType::f32);
  step.run();
  CHECK(std::ranges::equal(gradient.array().as<float>(), std::vector<float>{2, -4, 6, 2, -4, 6}));
}

TEST_CASE("a parameter's copy follows what the host writes, and is given up when a node updates the parameter alone") {
  Fixture f;
  const auto casts_to_bf16 = [&] {
    Step step = f.session.step();
    const Tensor copy = cast(f.w, DType::bf16);
    const Array elements = cast(copy, DType::f32).array();
    CHECK(std::ranges::equal(elements.as<float>(), f.session.read(f.w).as<float>()));
    return f.casts() == 2;
  };
  CHECK_FALSE(casts_to_bf16());
  f.session.write(f.w, Array::from<float>({9, 8, 7, 6, 5, 4}, {2, 3}));
  CHECK_FALSE(casts_to_bf16());
  {
    Step step = f.session.step();
    const ValueId w = Tensor(f.w).id(), rate = Tensor(Array::scalar(1.0)).id();
    f.session.tape().record(std::make_shared<ops::SgdUpdate>(SgdOptions{}), std::array{rate, w, w});
    step.run();
  }
  CHECK(casts_to_bf16());
  CHECK(casts_to_bf16());
}

TEST_CASE("a loss computed with a parameter's copy has no gradient once the parameter is another") {
  Fixture f;
  const Step step = f.session.step();
  const Tensor loss = mean(linear(cast(f.x, DType::bf16), cast(f.w, DType::bf16)));
  assign(f.w, Array::from<float>({1, 1, 1, 1, 1, 1}, {2, 3}));
  CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("before 'w' was updated in this step"), Error);
  CHECK(f.gradient() == kNoValue);
}

TEST_CASE("every version and every type of a parameter has a cast of its own") {
  Fixture f;
  const Step step = f.session.step();
  const ValueId bf16 = cast(f.w, DType::bf16).id();
  CHECK(cast(f.w, DType::bf16).id() == bf16);
  CHECK(cast(f.w, DType::f16).id() != bf16);
  CHECK(Tensor(cast(f.w, DType::f32)).id() == Tensor(f.w).id());
}

TEST_CASE("a cast under no_grad does not cut off the gradients of a later one") {
  Fixture f;
  const Step step = f.session.step();
  {
    const NoGrad no_grad;
    cast(f.w, DType::bf16);
  }
  const Tensor y = linear(cast(f.x, DType::bf16), cast(f.w, DType::bf16));
  backward(cast(linear(y, cast(Array::from<float>({1, 1}, {1, 2}), DType::bf16)), DType::f32));
  CHECK(f.gradient() != kNoValue);
}

TEST_CASE("losses and accuracies of f16 and bf16 logits are f32") {
  Fixture f;
  const Array labels = Array::from<std::int32_t>({1}, {1});
  Step step = f.session.step();
  const Tensor logits = linear(cast(f.x, DType::bf16), cast(f.w, DType::bf16));
  const Tensor loss = cross_entropy(logits, labels), right = accuracy(logits, labels);
  CHECK(f.casts() == 2);  // the logits once
  CHECK(loss.dtype() == DType::f32);
  CHECK(loss.item() == doctest::Approx(std::log1p(std::exp(6.0 - 12.0))).epsilon(1e-5));
  CHECK(right.item() == 1);
}

TEST_CASE("the gradient of a tensor scaled by a state is scaled likewise") {
  Fixture f;
  Parameter& factor = f.session.add("factor", {DType::f32, {}}, ValueKind::state);
  f.session.write(factor, Array::scalar(8.0f));
  Step step = f.session.step();
  const Tensor loss = scale(linear(linear(f.x, f.w), Array::from<float>({1, 2}, {1, 2})), factor);
  backward(loss);
  const Tensor gradient = braid::gradient(f.w).keep();
  step.run();
  CHECK(loss.item() == 8 * (6 + 2 * 12));
  CHECK(std::ranges::equal(gradient.array().as<float>(), std::vector<float>{8, -16, 24, 16, -32, 48}));
}

}  // namespace
}  // namespace braid
