// The state that failed calls leave behind, and the lifetimes of steps, models and names.

#include <doctest/doctest.h>

#include <functional>
#include <iostream>
#include <sstream>

#include "tests/api/one_layer.h"

namespace braid {

using testing::kOnes;
using testing::OneLayer;

TEST_CASE("an update that fails in another session's step leaves both sessions as they were") {
  OneLayer a, b;
  Step step_a = a.session.step();
  backward(a.loss());
  const Step step_b = b.session.step();
  backward(b.loss());
  const std::size_t tensors = b.session.parameters().size();
  const std::int32_t nodes = b.session.tape().graph().node_count();
  CHECK_THROWS_AS(a.sgd.step(), Error);
  CHECK_THROWS_AS(a.sgd.accumulate(1), Error);
  CHECK(b.session.parameters().size() == tensors);
  CHECK(b.session.tape().graph().node_count() == nodes);
  CHECK(a.session.parameters().size() == 1);
}

TEST_CASE("an update that fails leaves the step as it was") {
  OneLayer f;
  Parameter& other = f.session.add("other", {DType::f32, {2, 3}}, ValueKind::parameter);
  Adam adam({&f.w, &other}, {});
  Step step = f.session.step();
  backward(f.loss() + f.loss());
  Tensor(f.w).keep();  // cannot be overwritten then
  backward(cross_entropy(linear(kOnes, other), Array::from<std::int32_t>({0, 0}, {2})));
  const Hash before = f.session.tape().graph().hash();
  CHECK_THROWS_AS(adam.step(), Error);
  CHECK(f.session.tape().graph().hash() == before);
  CHECK(adam.updates() == 0);
}

TEST_CASE("a step that never runs leaves no trace in the optimizer") {
  const auto train = [](bool disturb) {
    OneLayer f;
    Adam adam({&f.w}, {.lr = 0.1});
    const auto accumulate = [&](const std::function<void(Step&)>& end, bool update) {
      Step step = f.session.step();
      backward(f.loss());
      adam.accumulate(0.5);
      if (update) adam.step();
      end(step);
    };
    const auto run = [](Step& step) { step.run(); };
    for (int i = 0; i < 3; ++i) {
      accumulate(run, false);
      if (disturb) accumulate([](Step& step) { step.discard(); }, true);
      accumulate(run, true);
      if (disturb) accumulate([](Step& step) { step.plan_ahead(); }, false);
    }
    CHECK(adam.updates() == 3);
    CHECK_FALSE(adam.accumulated());
    const Array weights = f.session.read(f.w);
    return std::vector<float>(weights.as<float>().begin(), weights.as<float>().end());
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("two optimizers, loss scales and averages of one model have tensors of their own") {
  OneLayer f;
  SGD again({&f.w}, {.lr = 0.1, .momentum = 0.9});
  CHECK(f.sgd.states()[0]->name() == "optimizer.w.momentum");
  CHECK(again.states()[0]->name() == "optimizer.w.momentum.2");
  const LossScale scale(f.session), second(f.session);
  CHECK(second.scale().name() == "loss_scale.scale.2");
}

TEST_CASE("a step, a guard and a layer's name may go in any order") {
  auto session = std::make_unique<Session>(SessionOptions{.device = "cpu"});
  auto layer = std::make_unique<LinearLayer>(*session, 3, 2);
  Step step = session->step();
  (*layer)(kOnes);
  step.run();
  layer.reset();
  CHECK(to_html(*session, step).find("linear") != std::string::npos);
  Step next = session->step();
  const NoGrad no_grad;
  session.reset();
}

TEST_CASE("a model that makes an input of its own can be evaluated") {
  struct Doubled final : Module {
    using Module::Module;
    Tensor forward(const Tensor& x) override { return x * Tensor(Array::from<float>({2}, {1})); }
  };
  Session session({.device = "cpu"});
  Doubled& net = session.add<Doubled>("doubled");
  Inference inference(net);
  Step step = session.step();
  const Tensor y = inference(kOnes);
  step.run();
  CHECK(y.array().as<float>()[0] == 2);
}

TEST_CASE("a checkpointed block whose parameter changes before the backward pass is kept") {
  Session session({.device = "cpu"});
  Parameter& b = session.add("b", {DType::f32, {4}}, ValueKind::parameter);
  SGD sgd({&b}, {.lr = 1});
  Step step = session.step();
  const Tensor x = Tensor(Array::from<float>({1, 2, 3, 4}, {4})).require_gradient();
  const Tensor y = checkpoint([&](const Tensor& z) { return relu(relu(z + Tensor(b)) * 2.0); }, x);
  backward(sum(Tensor(b)));
  sgd.step();
  backward(sum(y), {x});
  const Tensor of_x = gradient(x).keep();
  step.run();
  CHECK(of_x.array().as<float>()[0] == 2);
}

TEST_CASE("a backward pass that fails leaves the step as it was") {
  struct NoRule final : OpWith<NoRule> {
    std::string_view name() const override { return "no_rule"; }
    void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override {
      outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape});
    }
  };
  OneLayer f;
  Step step = f.session.step();
  const Tensor good = f.loss();
  const Tensor bad = add(apply_op(std::make_shared<NoRule>(), {good}), good);
  const StepGraph& graph = f.session.tape().graph();
  const std::int32_t nodes = graph.node_count(), values = graph.value_count();
  const Hash hash = graph.hash();
  CHECK_THROWS_AS(backward(bad), Error);
  CHECK(graph.node_count() == nodes);
  CHECK(graph.value_count() == values);
  CHECK(graph.hash() == hash);
  CHECK_FALSE(has_gradient(f.w));
  backward(good);
  CHECK(has_gradient(f.w));
}

TEST_CASE("a step ends when it has run, and can be moved") {
  OneLayer f;
  Step a = f.session.step();
  const Tensor loss = f.loss();
  const Fetched fetched = loss.fetch();
  Step moved = std::move(a);
  backward(loss);
  f.sgd.step();
  moved.run();
  const double first = loss.item();
  CHECK(fetched.item() == first);
  Step b = f.session.step();
  const Tensor again = f.loss();
  moved = std::move(b);  // `moved` was the step before
  moved.run();
  CHECK(again.item() < first);
  moved = f.session.step();
  CHECK(f.loss().item() < first);
}

TEST_CASE("an update that was recorded but never ran is warned about") {
  const auto warning = [](const auto& end) {
    std::ostringstream out;
    std::streambuf* const before = std::cerr.rdbuf(out.rdbuf());
    try {
      OneLayer f;
      Step step = f.session.step();
      backward(f.loss());
      f.sgd.step();
      end(step);
    } catch (const std::exception&) {
    }
    std::cerr.rdbuf(before);
    return out.str();
  };
  CHECK(warning([](Step&) {}).find("a step that updates 'w' was recorded but never run") != std::string::npos);
  CHECK(warning([](Step& step) { step.run(); }).empty());
  CHECK(warning([](Step& step) { step.discard(); }).empty());
  CHECK(warning([](Step&) { throw std::exception(); }).empty());
}

TEST_CASE("the name of a model that is gone can be used again") {
  Session session({.device = "cpu"});
  std::make_unique<LinearLayer>(session, 3, 2).reset();
  const LinearLayer layer(session, 3, 2);
  CHECK(layer.parameters()[0]->name() == "weight");
}

TEST_CASE("models and optimizers may be destroyed after their session") {
  std::unique_ptr<Session> session = std::make_unique<Session>(SessionOptions{.device = "cpu"});
  const LinearLayer layer(*session, 3, 2);
  SGD sgd(layer.parameters(), {.momentum = 0.9});
  CHECK(sgd.states().size() == 2);
  const LossScale scale(*session);
  session.reset();
  CHECK(layer.parameters()[0]->released());
  CHECK_THROWS_AS(layer.parameters()[0]->context(), Error);
}

}  // namespace braid
