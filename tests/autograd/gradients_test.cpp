// Gradients of inputs and activations, and those of some parameters only.

#include <doctest/doctest.h>

#include <algorithm>

#include "autograd/functions.h"
#include "runtime/session.h"

namespace braid {

namespace {

struct TwoLayers {
  Session session{{.device = "cpu", .streams = 2}};
  Parameter& a = session.add("a", {DType::f64, {3, 2}}, ValueKind::parameter);
  Parameter& b = session.add("b", {DType::f64, {1, 3}}, ValueKind::parameter);
  Array x = Array::from<double>({0.5, -2}, {1, 2});

  TwoLayers() {
    session.write(a, Array::from<double>({1, 2, -3, 4, 5, 6}, {3, 2}));
    session.write(b, Array::from<double>({2, 3, -1}, {1, 3}));
  }
  Tensor loss(const Tensor& input) { return linear(relu(linear(input, a)), b); }
  std::int64_t nodes(std::string_view op) {
    return std::ranges::count_if(session.tape().graph().nodes(),
                                 [&](const Node& node) { return node.op->name() == op; });
  }
};

std::vector<double> elements(const Array& array) { return {array.as<double>().begin(), array.as<double>().end()}; }

}  // namespace

TEST_CASE("a shape stays valid while further ops are recorded") {
  TwoLayers f;
  Step step = f.session.step();
  const Tensor x = f.x;
  const Shape& shape = x.shape();
  for (int i = 0; i < 1000; ++i) relu(x);
  CHECK(shape == Shape{1, 2});
}

TEST_CASE("a loss without parameters can be differentiated by its inputs") {
  TwoLayers f;
  Step step = f.session.step();
  const Tensor x = Tensor(Array::from<double>({3}, {1})).require_gradient();
  backward(5 * x);
  CHECK(gradient(x).item() == 5);
}

TEST_CASE("activation gradients of several losses are added") {
  TwoLayers f;
  Step step = f.session.step();
  const Tensor hidden = linear(Array::from<double>({1, 1}, {1, 2}), f.a);
  const Tensor loss = linear(relu(hidden), f.b);
  backward(loss);
  backward(3 * loss);
  const Tensor both = gradient(hidden).keep();
  CHECK(elements(both.array()) == std::vector<double>{8, 12, -4});
}

TEST_CASE("no gradient flows through a detached tensor, whose elements are the same") {
  TwoLayers f;
  Step step = f.session.step();
  const Tensor hidden = linear(Array::from<double>({1, 1}, {1, 2}), f.a);
  const Tensor cut = detach(hidden);
  cut.require_gradient();
  const Tensor loss = linear(cut, f.b);
  backward(loss);
  CHECK_FALSE(has_gradient(f.a));
  CHECK(has_gradient(f.b));
  const Tensor at_cut = gradient(cut).keep();
  CHECK(loss.item() == 2 * 3 + 3 * 1 - 11);
  CHECK(elements(at_cut.array()) == std::vector<double>{2, 3, -1});
}

TEST_CASE("backward to some parameters computes nothing that only others need") {
  TwoLayers f;
  {
    Step step = f.session.step();
    backward(f.loss(f.x));
    CHECK(f.nodes("linear_backward_filter") == 2);
  }
  {
    Step step = f.session.step();
    backward(f.loss(f.x), std::vector<Parameter*>{&f.a});
    CHECK(has_gradient(f.a));
    CHECK_FALSE(has_gradient(f.b));
    CHECK(f.nodes("linear_backward_filter") == 1);
    CHECK(f.nodes("linear_backward_data") == 1);
  }
  {
    Step step = f.session.step();
    backward(f.loss(f.x), std::vector<Parameter*>{&f.b});
    CHECK(f.nodes("linear_backward_filter") == 1);
    CHECK(f.nodes("linear_backward_data") == 0);
    CHECK(f.nodes("relu_backward") == 0);
  }
  {
    Step step = f.session.step();
    const Tensor x = Tensor(f.x).require_gradient(), hidden = linear(x, f.a);
    backward(linear(relu(hidden), f.b), {hidden});
    CHECK(f.nodes("linear_backward_data") == 1);
    CHECK(f.nodes("linear_backward_filter") == 0);
    gradient(hidden);
  }
}

TEST_CASE("backward to all parameters one after the other gives the gradients of one pass") {
  TwoLayers f;
  std::vector<double> separate, together;
  const Array x = Array::from<double>({1, 1}, {1, 2});
  for (const bool apart : {false, true}) {
    Step step = f.session.step();
    const Tensor loss = f.loss(x);
    if (apart) {
      backward(loss, std::vector<Parameter*>{&f.a});
      backward(loss, std::vector<Parameter*>{&f.b});
    } else {
      backward(loss);
    }
    const Tensor a = gradient(f.a).keep(), b = gradient(f.b).keep();
    step.run();
    for (const Tensor& tensor : {a, b}) {
      for (const double element : elements(tensor.array())) (apart ? separate : together).push_back(element);
    }
  }
  CHECK(separate == together);
}

}  // namespace braid
