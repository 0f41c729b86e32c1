// The functions on tensors: what compiles, what they compute, and what they refuse.

#include "autograd/functions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/session.h"

using namespace braid;

namespace {

struct Recording {
  Session session{{.device = "cpu", .streams = 1}};
  Step step = session.step();
};

Tensor tensor(std::vector<double> list, const Shape& shape) { return Array::from<double>(list, shape); }

std::vector<double> doubles_of(const Tensor& x) {
  const Array array = x.array();
  const auto values = array.as<double>();
  return {values.begin(), values.end()};
}

using Doubles = std::vector<double>;

}  // namespace

TEST_CASE("operators and functions take tensors, numbers and braces as one would write them") {
  Recording on;
  const Tensor a = tensor({1, 2, 3, 4, 5, 6}, {2, 3}), b = tensor({10, 20, 30}, {3}), c = tensor({2}, {});
  const std::pair<Tensor, Doubles> rows[] = {
      {a + b, {11, 22, 33, 14, 25, 36}},
      {a - b, {-9, -18, -27, -6, -15, -24}},
      {a * c, {2, 4, 6, 8, 10, 12}},
      {a / c, {0.5, 1, 1.5, 2, 2.5, 3}},
      {-a, {-1, -2, -3, -4, -5, -6}},
      {1 + a, {2, 3, 4, 5, 6, 7}},
      {a + 1, {2, 3, 4, 5, 6, 7}},
      {1 - a, {0, -1, -2, -3, -4, -5}},
      {a - 1.5, {-0.5, 0.5, 1.5, 2.5, 3.5, 4.5}},
      {6 / a, {6, 3, 2, 1.5, 1.2, 1}},
      {a / 2, {0.5, 1, 1.5, 2, 2.5, 3}},
      {2 * a, {2, 4, 6, 8, 10, 12}},
      {a * 2, {2, 4, 6, 8, 10, 12}},
      {mean(a), {3.5}},
      {mean(a, {0, 1}), {3.5}},
      {sum(a, 1), {6, 15}},
      {sum(a, {}), {21}},
      {sum({a, a}), {2, 4, 6, 8, 10, 12}},
      {concat({a, a}), {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
      {mean(a, -1, true), {2, 5}},
      {amax(a, {0}), {4, 5, 6}},
      {amin(a), {1}},
      {sum(a + b, {-1}, true), {66, 75}},
      {eq(a, 3), {0, 0, 1, 0, 0, 0}},
      {ge(3, a), {1, 1, 1, 0, 0, 0}},
      {where(lt(a, 4), a, -1), {1, 2, 3, -1, -1, -1}},
      {where(lt(a, 9), a, log(-a)), {1, 2, 3, 4, 5, 6}},
      {pow(2, a), {2, 4, 8, 16, 32, 64}},
      {expand(c, {2, 2}), {2, 2, 2, 2}},
      {stack({b, b}, 1), {10, 10, 20, 20, 30, 30}},
      {flip(a, {1}), {3, 2, 1, 6, 5, 4}},
      {pad(b, {{1, 2}}, PadMode::reflect), {20, 10, 20, 30, 20, 10}},
      {pad(b, {{1, 2}}, PadMode::circular), {30, 10, 20, 30, 10, 20}},
      {cast(argmax(a, 0), DType::f64), {1, 1, 1}},
      {topk(a, 2).values, {3, 2, 6, 5}},
      {one_hot(topk(b, 1).indices, 3, DType::f64), {0, 0, 1}},
      {gather(a, 1, topk(a, 1, 1, false).indices), {1, 4}},
      {embedding(Array::from<std::int32_t>({1, 0, 1}, {3}), a), {4, 5, 6, 1, 2, 3, 4, 5, 6}},
      {var(a, 1), {1, 1}},
      {norm(tensor({3, 4}, {2})), {5}},
      {weighted_sum(tensor({0, 0}, {2}), {a, a}), {1, 2, 3, 4, 5, 6}},
  };
  CHECK(mean(a, -1, true).shape() == Shape{2, 1});
  CHECK(sum(a + b, {-1}, true).shape() == Shape{2, 1});
  CHECK(mean(a).shape() == Shape{});
  for (const auto& [y, expected] : rows) y.keep();
  for (const auto& [y, expected] : rows) CHECK(doubles_of(y) == expected);
}

TEST_CASE("comparisons of integers are exact, and of an integer and a floating tensor in the floating type") {
  Recording on;
  const Tensor labels = Array::from<std::int32_t>({1, 2, 16777217}, {3});
  const Tensor predicted = argmax(tensor({0, 1, 0, 1, 0, 0}, {2, 3}));
  const std::pair<Tensor, std::vector<float>> rows[] = {
      {eq(predicted, Tensor(Array::from<std::int32_t>({1, 2}, {2}))), {1, 0}},
      {eq(labels, Tensor(Array::from<std::int32_t>({1, 1, 16777216}, {3}))), {1, 0, 0}},
      {gt(labels, 16777216), {0, 0, 1}},
      {le(1.5, labels), {0, 1, 1}},
      {ne(labels, Tensor(Array::from<float>({1, 1.5, 3}, {3}))), {0, 1, 1}},
      {lt(Tensor(Array::from<std::uint8_t>({0, 7, 255}, {3})), labels), {1, 0, 1}},
  };
  const Tensor wide = ge(tensor({1, 2, 3}, {3}), labels).keep();
  for (const auto& [y, expected] : rows) y.keep();
  on.step.run();
  for (const auto& [y, expected] : rows) {
    const Array array = y.array();
    CHECK(std::ranges::equal(array.as<float>(), expected));
  }
  CHECK(doubles_of(wide) == Doubles{1, 1, 0});
}

TEST_CASE("the sum of two tensors of one shape stays the op that joins branches") {
  Recording on;
  const Tensor a = tensor({1, 2}, {2}), row = tensor({1, 2}, {1, 2});
  const StepGraph& graph = on.session.tape().graph();
  const auto name = [&](const Tensor& x) { return graph.node(graph.value(x.id()).producer).op->name(); };
  CHECK(name(a + a) == "sum");
  CHECK(name(a * 2.0) == "scale");
  CHECK(name(a + row) == "elementwise");
}

TEST_CASE("shapes that do not broadcast, and axes that are none, are refused with a reason") {
  Recording on;
  const Tensor a = tensor(Doubles(12), {4, 3}), b = tensor(Doubles(20), {4, 5});
  CHECK_THROWS_WITH_AS(a * b, "[mul] shapes [4,3] and [4,5] do not broadcast: axis 1 is 3 and 5", ShapeError);
  CHECK_THROWS_WITH_AS(a + b, "[add] shapes [4,3] and [4,5] do not broadcast: axis 1 is 3 and 5", ShapeError);
  CHECK_THROWS_WITH_AS(mean(a, {0, 2}), "[mean] expected axes of [4,3], from -2 to 1, got 2", ShapeError);
  CHECK_THROWS_WITH_AS(sum(a, {0, -2}), "[sum] expected different axes, got -2 twice", ShapeError);
  CHECK_THROWS_WITH_AS(softmax(a, 2), "[softmax] expected axes of [4,3], from -2 to 1, got 2", ShapeError);
  CHECK_THROWS_WITH_AS(mse_loss(a, b), "[mse_loss] expected a target of shape [4,3], as the input's, got [4,5]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(amax(tensor({}, {0, 3}), 0), doctest::Contains("[amax] expected elements along axes [0]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(argmax(tensor({}, {0, 3}), 0),
                       "[argmax] expected elements along axis 0, got none (input is [0,3])", ShapeError);
  CHECK_THROWS_WITH_AS(norm(tensor({}, {0, 3}), std::numeric_limits<double>::infinity()),
                       doctest::Contains("[norm] expected elements along axes [0,1]"), ShapeError);
  CHECK_THROWS_WITH_AS(exp(Tensor(Array(DType::i32, {3}))), "[exp] expected an input of a floating type, got i32",
                       ShapeError);
  CHECK_THROWS_WITH_AS(eq(2, 3.0), "[eq] expected at least one tensor, got numbers only", Error);
  CHECK_THROWS_WITH_AS(where(a, a, b), doctest::Contains("[where] shapes"), ShapeError);
  CHECK_THROWS_WITH_AS(expand(a, {4, 4}), doctest::Contains("[expand]"), ShapeError);
  CHECK_THROWS_WITH_AS(stack({a, b}), doctest::Contains("[stack]"), ShapeError);
  CHECK_THROWS_WITH_AS(unsqueeze(a, 3), doctest::Contains("an axis from -3 to 2"), ShapeError);
  CHECK_THROWS_WITH_AS(topk(a, 4), doctest::Contains("[topk] expected k between 0"), ShapeError);
  CHECK_THROWS_WITH_AS(pad(a, {{4, 0}, {}}, PadMode::reflect), doctest::Contains("between 0 and 3"), ShapeError);
  CHECK_THROWS_WITH_AS(gather(a, 0, Array(DType::i32, {1, 4})), doctest::Contains("at most 3 elements"), ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(a, Array(DType::i32, {4}), {.weight = tensor({1, 2}, {2})}),
                       doctest::Contains("a weight for each of 3 classes"), ShapeError);
  CHECK_THROWS_WITH_AS(a * cast(a, DType::f32),
                       "[mul] expected inputs of one type, got f64 and f32: cast() one of them", ShapeError);
}

TEST_CASE("gradients at kinks and of ties are PyTorch's") {
  const auto gradient_of = [](const Doubles& at, const auto& function) {
    Session session({.device = "cpu", .streams = 1});
    const Shape shape{static_cast<std::int64_t>(at.size())};
    Parameter& w = session.add("w", {DType::f64, shape}, ValueKind::parameter);
    session.write(w, Array::from<double>(at, shape));
    Step step = session.step();
    backward(sum(function(Tensor(w))));
    return doubles_of(gradient(w));
  };
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(gradient_of({0, 0}, [](const Tensor& x) { return norm(x); }) == Doubles{0, 0});
  CHECK(gradient_of({-1, 0, 4}, [](const Tensor& x) { return where(ge(x, 0), 2 * x, x); }) == Doubles{1, 2, 2});
  CHECK(gradient_of({-2, 0, 3}, [](const Tensor& x) { return abs(x); }) == Doubles{-1, 0, 1});
  CHECK(gradient_of({-2, -1, 0, 1, 2}, [](const Tensor& x) { return clamp(x, -1, 1); }) == Doubles{0, 0, 1, 0, 0});
  CHECK(gradient_of({1, 2, 3}, [](const Tensor& x) {
          return maximum(x, tensor({2, 2, 2}, {3}));
        }) == Doubles{0, 0.5, 1});
  CHECK(gradient_of({1, 2, 3}, [](const Tensor& x) {
          return minimum(x, tensor({2, 2, 2}, {3}));
        }) == Doubles{1, 0.5, 0});
  CHECK(gradient_of({5, 1, 5, 5}, [](const Tensor& x) { return 3 * amax(x); }) == Doubles{1, 0, 1, 1});
  CHECK(gradient_of({0, 4}, [](const Tensor& x) { return sqrt(x); }) == Doubles{infinity, 0.25});
  CHECK(gradient_of({0, 3}, [](const Tensor& x) { return pow(x, 0); }) == Doubles{0, 0});
  CHECK(gradient_of({0, 3}, [](const Tensor& x) { return pow(x, 2); }) == Doubles{0, 6});
  CHECK(gradient_of({-1, 0, 1}, [](const Tensor& x) { return leaky_relu(x, 0.25); }) == Doubles{0.25, 0.25, 1});
  CHECK(gradient_of({-1, 3}, [](const Tensor& x) { return square(x); }) == Doubles{-2, 6});
  const double nan = std::nan("");
  CHECK(gradient_of({nan, 1}, [](const Tensor& x) { return relu(x); }) == Doubles{1, 1});
  CHECK(gradient_of({nan, 1}, [](const Tensor& x) { return abs(x); }) == Doubles{0, 1});
  CHECK(gradient_of({nan, 1}, [](const Tensor& x) { return clamp(x, -1, 2); }) == Doubles{0, 1});
  CHECK(gradient_of({nan, 1}, [](const Tensor& x) { return leaky_relu(x, 0.25); }) == Doubles{0.25, 1});
  for (const double of_none : gradient_of({nan, 1}, [](const Tensor& x) { return amax(x); })) {
    CHECK(std::isnan(of_none));
  }
}

TEST_CASE("an infinity makes its whole group of a normalisation NaN, and no other") {
  Recording on;
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({infinity, 1, 2, 3, 1, 2, 3, 4}, {2, 1, 4}), ones = tensor({1, 1, 1, 1}, {4});
  const Tensor zeros = tensor({0, 0, 0, 0}, {4});
  for (const Tensor& y : {layer_norm(x, ones, zeros).keep(), group_norm(x, 1, ones, zeros).keep()}) {
    const Doubles elements = doubles_of(y);
    for (std::size_t i = 0; i < 8; ++i) CHECK(std::isnan(elements[i]) == (i < 4));
  }
}

TEST_CASE("functions do not overflow where their values are finite, and keep NaNs") {
  Recording on;
  const double nan = std::nan("");
  const Tensor x = tensor({-1000, -1, 0, 1, 1000}, {5}), bad = tensor({nan, 1}, {2}), one = tensor({1, nan}, {2});
  const Tensor results[] = {
      sigmoid(x).keep(), softplus(x).keep(),        silu(x).keep(), gelu(x).keep(), softmax(x).keep(),
      tanh(x).keep(),    gelu(x, Gelu::tanh).keep()};
  const Tensor losses = binary_cross_entropy_with_logits(x, tensor({0, 0, 1, 1, 1}, {5}), LossReduction::none).keep();
  const Tensor nans[] = {maximum(bad, one).keep(), minimum(bad, one).keep(), clamp(bad, 0, 1).keep(),
                         abs(bad).keep(),          amax(bad).keep(),         softmax(bad).keep()};
  for (const Tensor& result : results) {
    for (const double element : doubles_of(result)) CHECK(std::isfinite(element));
  }
  CHECK(doubles_of(losses)[0] == 0);
  CHECK(doubles_of(losses)[4] == 0);
  CHECK(doubles_of(losses)[2] == doctest::Approx(std::log(2.0)).epsilon(1e-14));
  for (const Tensor& result : nans) CHECK(std::isnan(doubles_of(result)[0]));
  CHECK(std::isnan(doubles_of(nans[0])[1]));
  CHECK(std::isnan(doubles_of(nans[1])[1]));
}

TEST_CASE("losses are reduced as asked, and positives weighted") {
  Recording on;
  const Tensor x = tensor({1, -2, 3}, {3}), target = tensor({0, 1, 1}, {3});
  const Tensor mse = mse_loss(x, target).keep(), l1 = l1_loss(x, target, LossReduction::sum).keep();
  const Tensor each = mse_loss(x, target, LossReduction::none).keep();
  const Tensor bce = binary_cross_entropy_with_logits(x, target, LossReduction::none).keep();
  const Tensor weighted =
      binary_cross_entropy_with_logits(x, target, LossReduction::none, tensor({2, 2, 0.5}, {3})).keep();
  CHECK(mse.item() == doctest::Approx(14.0 / 3).epsilon(1e-14));
  CHECK(l1.item() == 6);
  CHECK(doubles_of(each) == Doubles{1, 9, 4});
  const double weights[] = {1, 2, 0.5};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(doubles_of(weighted)[i] == doctest::Approx(weights[i] * doubles_of(bce)[i]).epsilon(1e-14));
  }
}

TEST_CASE("losses of f16 are computed in f32") {
  Recording on;
  const Tensor x = cast(Tensor(Array::from<float>({300, 2}, {2})), DType::f16);
  const Tensor loss = mse_loss(x, cast(Tensor(Array::from<float>({0, 0}, {2})), DType::f16), LossReduction::sum).keep();
  CHECK(loss.dtype() == DType::f32);
  CHECK(loss.item() == 90004);
}

TEST_CASE("classes of pixels have the loss and the accuracy of as many rows") {
  Recording on;
  const Tensor logits = tensor({1, 2, 3, 1, 0, 5, 2, 2, 1, 4, 0, 0}, {1, 2, 2, 3});
  logits.require_gradient();
  const Tensor labels = Array::from<std::int32_t>({2, 0, 1, 0}, {1, 2, 2});
  const Tensor rows = reshape(logits, {4, 3}), of_rows = reshape(labels, {4});
  CHECK(label_shape(logits.shape()) == Shape{1, 2, 2});
  const Tensor results[] = {cross_entropy(logits, labels, 0.1),
                            cross_entropy(rows, of_rows, 0.1),
                            accuracy(logits, labels),
                            accuracy(rows, of_rows),
                            cross_entropy(logits, softmax(logits)),
                            cross_entropy(rows, softmax(rows))};
  CHECK_THROWS_WITH_AS(cross_entropy(logits, of_rows),
                       "[cross_entropy] expected labels of shape [1,2,2] (logits are [1,2,2,3]), got [4]", ShapeError);
  CHECK_THROWS_AS(accuracy(logits, tensor({1, 2}, {2})), ShapeError);
  backward(results[0]);
  const Tensor d = gradient(logits);
  d.keep();
  on.step.run();
  for (std::size_t i = 0; i < std::size(results); i += 2) CHECK(results[i].item() == results[i + 1].item());
  CHECK(results[2].item() == 0.5);
  CHECK(d.array().shape() == logits.shape());
}

TEST_CASE("each call of a dropout in a step draws anew, and the same in another session") {
  std::vector<Doubles> drawn;
  for (int repetition = 0; repetition < 2; ++repetition) {
    Recording on;
    const Tensor x = Array::from(Doubles(64, 1), {64});
    x.require_gradient();
    const Tensor first = dropout(x, 0.5, 3).keep(), other = dropout(x, 0.5, 4).keep();
    backward(sum(first));
    const Tensor dx = gradient(x).keep(), second = dropout(x, 0.5, 3).keep();
    on.step.run();
    CHECK(doubles_of(dx) == doubles_of(first));  // the mask of its call
    for (const Tensor& y : {first, second, other}) drawn.push_back(doubles_of(y));
  }
  CHECK(drawn[0] != drawn[1]);
  CHECK(drawn[0] != drawn[2]);
  CHECK(drawn[1] != drawn[2]);
  for (std::size_t i = 0; i < 3; ++i) CHECK(drawn[i] == drawn[3 + i]);
}

TEST_CASE("each random tensor of a step has its own numbers, and the same in another session") {
  std::vector<Doubles> drawn;
  for (int repetition = 0; repetition < 2; ++repetition) {
    Recording on;
    const Tensor tensors[] = {rand({8}, DType::f64), randn({8}, DType::f64), rand_like(tensor(Doubles(8), {8}))};
    const Tensor again = rand({8}, DType::f64);
    for (const Tensor& x : tensors) x.keep();
    again.keep();
    on.step.run();
    for (const Tensor& x : tensors) drawn.push_back(doubles_of(x));
    drawn.push_back(doubles_of(again));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(drawn[i] == drawn[4 + i]);
    for (std::size_t k = 0; k < i; ++k) CHECK(drawn[i] != drawn[k]);
  }
}

TEST_CASE("random tensors are uniform between 0 and 1, or normal") {
  constexpr std::int64_t kCount = 1000;
  Recording on;
  const Tensor like = tensor(Doubles(kCount), {kCount});
  const Tensor uniform[] = {rand({kCount}, DType::f64).keep(), rand_like(like).keep()};
  const Tensor normal[] = {randn({kCount}, DType::f64).keep(), randn_like(like).keep()};
  on.step.run();
  const auto check_moments = [](const Tensor& x, double expected_mean, double expected_variance) {
    const Doubles drawn = doubles_of(x);
    double sum = 0, squares = 0;
    for (const double value : drawn) sum += value, squares += (value - expected_mean) * (value - expected_mean);
    CHECK(std::abs(sum / kCount - expected_mean) < 0.1 * std::sqrt(expected_variance));
    CHECK(std::abs(squares / kCount - expected_variance) < 0.15 * expected_variance);
  };
  for (const Tensor& x : uniform) {
    check_moments(x, 0.5, 1.0 / 12);
    CHECK(std::ranges::all_of(doubles_of(x), [](double value) { return 0 <= value && value < 1; }));
  }
  for (const Tensor& x : normal) check_moments(x, 0, 1);
}

TEST_CASE("an index or a label that names nothing is an error of the step, also in the general cross entropy") {
  const auto run = [](const auto& function) {
    Recording on;
    const Tensor y = function(tensor({1, 2, 3, 4}, {2, 2})).keep();
    on.step.run();
    return doubles_of(y);
  };
  const auto list = [](std::int32_t a, std::int32_t b) { return Array::from<std::int32_t>({a, b}, {2}); };
  CHECK_THROWS_AS(run([&](const Tensor& x) { return index_select(x, 0, list(0, 2)); }), DataError);
  CHECK_THROWS_AS(run([&](const Tensor& x) { return embedding(list(-1, 0), x); }), DataError);
  const CrossEntropyOptions none{.ignore_index = 255, .reduction = LossReduction::none};
  CHECK_THROWS_AS(run([&](const Tensor& x) { return cross_entropy(x, list(0, 2), none); }), DataError);
  CHECK(run([&](const Tensor& x) { return cross_entropy(x, list(0, 255), none); })[1] == 0);
}

TEST_CASE("a batch of no sample gives empty results, means that are NaN, and -inf as the logarithm of no sum") {
  Recording on;
  const Tensor images = tensor({}, {0, 4, 4, 2}), rows = tensor({}, {0, 3});
  const Tensor filter = tensor(Doubles(3 * 3 * 3 * 2), {3, 3, 3, 2}), weight = tensor(Doubles(15), {5, 3});
  const Tensor two = tensor({1, 1}, {2});
  const std::pair<Tensor, Shape> results[] = {
      {conv2d(images, filter, {.padding = 1}), {0, 4, 4, 3}},
      {conv_transpose2d(images, tensor(Doubles(2 * 3 * 3 * 3), {2, 3, 3, 3})), {0, 6, 6, 3}},
      {linear(rows, weight), {0, 5}},
      {matmul(rows, tensor(Doubles(6), {3, 2})), {0, 2}},
      {max_pool2d(images, {}), {0, 2, 2, 2}},
      {max_pool2d(images, {.window = 2, .stride = 1}, 2), {0, 2, 2, 2}},
      {avg_pool2d(images, {}), {0, 2, 2, 2}},
      {avg_pool2d(images, {}, 3), {0, 2, 2, 2}},
      {global_avg_pool(images), {0, 2}},
      {adaptive_avg_pool2d(images, 3), {0, 3, 3, 2}},
      {interpolate(images, {.scale = 2}), {0, 8, 8, 2}},
      {interpolate(images, {.size = 3, .mode = Interpolation::bicubic}), {0, 3, 3, 2}},
      {group_norm(images, 2, two, two), {0, 4, 4, 2}},
      {layer_norm(images, two, two), {0, 4, 4, 2}},
      {pad(images, {{}, {1, 1}, {1, 1}, {}}, PadMode::reflect), {0, 6, 6, 2}},
      {softmax(rows), {0, 3}},
      {topk(rows, 2).values, {0, 2}},
      {sort(rows, 0).values, {0, 3}},
      {embedding(Array(DType::i32, {0}), weight), {0, 3}},
      {dropout(rows, 0.5, 0), {0, 3}},
      {argmax(rows), {0}},
      {logsumexp(rows, 1), {0}},
  };
  const Tensor log_of_none = logsumexp(rows, 0).keep();
  const Array labels(DType::i32, {0});
  const Tensor means[] = {cross_entropy(rows, labels), cross_entropy(rows, labels, {.label_smoothing = 0.1}),
                          cast(accuracy(rows, labels), DType::f64), mse_loss(rows, rows), mean(rows)};
  for (const auto& [y, shape] : results) y.keep();
  on.step.run();
  for (const auto& [y, shape] : results) CHECK(y.array().shape() == shape);
  for (const Tensor& y : means) CHECK(std::isnan(y.item()));
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(doubles_of(log_of_none) == Doubles{-inf, -inf, -inf});
}

TEST_CASE("a batch of no sample leaves the statistics of batch_norm as they are, and its gradients are 0") {
  for (const bool add : {false, true}) {
    Session session({.device = "cpu", .streams = 1});
    std::vector<Parameter*> p;
    for (const char* name : {"scale", "shift", "mean", "variance"}) {
      p.push_back(&session.add(name, {DType::f64, {2}}, p.size() < 2 ? ValueKind::parameter : ValueKind::state));
      session.write(*p.back(), Array::from<double>({2, 3}, {2}));
    }
    Step step = session.step();
    const Tensor x = tensor({}, {0, 4, 4, 2});
    x.require_gradient();
    const Tensor y = batch_norm(x, {*p[0], *p[1], *p[2], *p[3]}, {.activation = Activation::relu, .add = add}, true,
                                add ? x : Tensor());
    backward(sum(y));
    const Tensor dx = gradient(x).keep(), dscale = gradient(*p[0]).keep(), dshift = gradient(*p[1]).keep();
    step.run();
    CHECK(dx.array().shape() == Shape{0, 4, 4, 2});
    CHECK(doubles_of(dscale) == Doubles{0, 0});
    CHECK(doubles_of(dshift) == Doubles{0, 0});
    for (const Parameter* statistic : {p[2], p[3]}) {
      const Array array = session.read(*statistic);
      CHECK(Doubles(array.as<double>().begin(), array.as<double>().end()) == Doubles{2, 3});
    }
  }
}

TEST_CASE("the binary cross entropy of an infinite logit on the side of its target is 0, and on the other infinite") {
  Recording on;
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor logits = tensor({inf, -inf, -inf, inf}, {4}), target = tensor({0, 1, 0, 1}, {4});
  const Tensor losses = binary_cross_entropy_with_logits(logits, target, LossReduction::none).keep();
  on.step.run();
  CHECK(doubles_of(losses) == Doubles{inf, inf, 0, 0});
}
