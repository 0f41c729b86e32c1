#include "train/optimizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "autograd/functions.h"
#include "runtime/session.h"
#include "tests/noise.h"
#include "train/loss_scale.h"
#include "train/weight_average.h"

using namespace braid;

namespace {

constexpr std::int64_t kIn = 3, kOut = 2;
constexpr int kSteps = 6;

/// One linear layer on one sample, w [kOut,kIn] and b [kOut], with the loss Σ_k c_k (w x + b)_k, whose gradients are
/// known: c_k x_i for the weight, c_k for the bias. The weight is decayed, the bias is not.
struct OptimizerFixture {
  Session session;
  Parameter& w = session.add("w", {DType::f32, {kOut, kIn}}, ValueKind::parameter);
  Parameter& b = session.add("b", {DType::f32, {kOut}}, ValueKind::parameter);

  explicit OptimizerFixture(const ParallelOptions& parallel = {})
      : session({.device = "cpu", .streams = 2, .parallel = parallel}) {
    session.write(w, noise({kOut, kIn}, 1));
    session.write(b, noise({kOut}, 2));
    b.weight_decay = false;
  }
  static Array x(int step) { return noise({1, kIn}, 10 + static_cast<std::uint64_t>(step)); }
  static Array c(int step) { return noise({1, kOut}, 50 + static_cast<std::uint64_t>(step)); }

  void record_passes(int step) { backward(linear(linear(x(step), w, b), c(step))); }
  void train_step(Optimizer& optimizer, int step) {
    Step s = session.step();
    record_passes(step);
    optimizer.step();
    s.run();
    session.synchronize();
  }
};

/// The gradient of every element of w, then of b, in step `step`.
std::vector<double> gradients(int step) {
  const Array x = OptimizerFixture::x(step), c = OptimizerFixture::c(step);
  std::vector<double> list;
  for (const float ck : c.as<float>()) {
    for (const float xi : x.as<float>()) list.push_back(static_cast<double>(ck) * static_cast<double>(xi));
  }
  for (const float ck : c.as<float>()) list.push_back(static_cast<double>(ck));
  return list;
}

std::vector<double> elements(OptimizerFixture& fixture) {
  std::vector<double> list;
  for (const Parameter* parameter : {&fixture.w, &fixture.b}) {
    const Array array = fixture.session.read(*parameter);
    for (const float value : array.as<float>()) list.push_back(static_cast<double>(value));
  }
  return list;
}

/// Steps round to f32 a few times each: by some 1e-7 relative to values of about 1.
void check_elements(OptimizerFixture& fixture, const std::vector<double>& expected) {
  const std::vector<double> got = elements(fixture);
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) < 5e-6);
}

double lr_of(int step) { return 0.1 / (1 + step); }

/// Trains with the optimizer, and each element by `formula(p, gradient, lr, decays, element, step)` in double.
template <class Formula>
void compare(OptimizerFixture& fixture, Optimizer& optimizer, const Formula& formula) {
  std::vector<double> expected = elements(fixture);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.set_lr(lr_of(step));
    fixture.train_step(optimizer, step);
    const std::vector<double> g = gradients(step);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = formula(expected[i], g[i], lr_of(step), i < kOut * kIn, i, step);
    }
  }
  check_elements(fixture, expected);
}

void compare_sgd(const SGD::Options& options) {
  OptimizerFixture fixture;
  SGD optimizer({&fixture.w, &fixture.b}, options);
  std::vector<double> momentum(kOut * kIn + kOut);
  compare(fixture, optimizer, [&](double p, double g, double lr, bool decays, std::size_t i, int) {
    const double decay = decays ? options.weight_decay : 0;
    if (options.decoupled) {
      p *= 1 - lr * decay;
    } else {
      g += decay * p;
    }
    momentum[i] = options.momentum * momentum[i] + g;
    return p - lr * (options.nesterov ? g + options.momentum * momentum[i] : momentum[i]);
  });
}

void compare_adam(const Adam::Options& options, bool through_adamw = false) {
  OptimizerFixture fixture;
  std::unique_ptr<Optimizer> optimizer;
  if (through_adamw) {
    optimizer = std::make_unique<AdamW>(std::vector{&fixture.w, &fixture.b}, options);
  } else {
    optimizer = std::make_unique<Adam>(std::vector{&fixture.w, &fixture.b}, options);
  }
  const bool decoupled = options.decoupled || through_adamw;
  std::vector<double> mean(kOut * kIn + kOut), variance(mean.size());
  compare(fixture, *optimizer, [&](double p, double g, double lr, bool decays, std::size_t i, int step) {
    const double decay = decays ? options.weight_decay : 0;
    if (decoupled) {
      p *= 1 - lr * decay;
    } else {
      g += decay * p;
    }
    mean[i] = options.beta1 * mean[i] + (1 - options.beta1) * g;
    variance[i] = options.beta2 * variance[i] + (1 - options.beta2) * g * g;
    const double m = mean[i] / (1 - std::pow(options.beta1, step + 1));
    const double v = variance[i] / (1 - std::pow(options.beta2, step + 1));
    return p - lr * m / (std::sqrt(v) + options.epsilon);
  });
}

/// The update nodes that an optimizer records for parameters of these sizes, each with its number of parameters.
std::vector<int> buckets(const std::vector<std::int64_t>& sizes, const std::vector<bool>& decays = {},
                         double weight_decay = 0) {
  Session session({.device = "cpu", .streams = 1});
  std::vector<Parameter*> parameters;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Parameter& p = session.add(message("p", i), {DType::f32, {1, sizes[i]}}, ValueKind::parameter);
    if (!decays.empty()) p.weight_decay = decays[i];
    parameters.push_back(&p);
  }
  SGD optimizer(parameters, {.momentum = 0, .weight_decay = weight_decay});
  const Step step = session.step();
  std::vector<Tensor> losses;
  for (Parameter* p : parameters) losses.push_back(linear(Array(DType::f32, {1, p->shape()[1]}), *p));
  backward(sum(losses));
  optimizer.step();
  std::vector<int> counts;
  const StepGraph& graph = session.tape().graph();
  for (const Node& node : graph.nodes()) {
    if (node.op->name() == "sgd_update") counts.push_back((node.input_count - 1) / 2);
  }
  return counts;
}

}  // namespace

TEST_CASE("SGD follows its formula") {
  compare_sgd({});
  compare_sgd({.weight_decay = 0.3});
  compare_sgd({.momentum = 0.9});
  compare_sgd({.momentum = 0.9, .weight_decay = 0.3});
  compare_sgd({.momentum = 0.9, .weight_decay = 0.3, .nesterov = true});
  compare_sgd({.momentum = 0.9, .weight_decay = 0.3, .nesterov = true, .decoupled = true});
}

TEST_CASE("Adam and AdamW follow their formulas") {
  compare_adam({});
  compare_adam({.beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.3});
  compare_adam({.weight_decay = 0.3, .decoupled = true});
  compare_adam({.weight_decay = 0.3}, true);
}

TEST_CASE("groups have their own learning rate, which follows the optimizer's, and their own weight decay") {
  OptimizerFixture fixture;
  fixture.b.weight_decay = true;
  Parameter &w = fixture.w, &b = fixture.b;
  SGD sgd({{.parameters = {&w}, .lr = 0.02}, {.parameters = {&b}, .weight_decay = 0.4}},
          {.lr = 0.1, .weight_decay = 0.3});
  compare(fixture, sgd, [](double p, double g, double lr, bool is_w, std::size_t, int) {
    return p - (is_w ? 0.2 * lr : lr) * (g + (is_w ? 0.3 : 0.4) * p);
  });
  AdamW adam({{.parameters = {&b}, .lr = 0.3, .weight_decay = 0}, {.parameters = {&w}}},
             {.lr = 0.1, .beta1 = 0, .beta2 = 0, .epsilon = 1e-30, .weight_decay = 0.3});
  compare(fixture, adam, [](double p, double g, double lr, bool is_w, std::size_t, int) {
    return (is_w ? p * (1 - lr * 0.3) : p) - (is_w ? lr : 3 * lr) * (g > 0 ? 1 : -1);
  });
}

TEST_CASE("groups with equal options share an update") {
  Session session({.device = "cpu", .streams = 1});
  std::vector<Parameter*> p;
  for (const char* name : {"a", "b", "c", "d"}) p.push_back(&session.add(name, {DType::f32, {}}, ValueKind::parameter));
  SGD sgd({{{p[0]}, 0.1, 0.0}, {{p[1]}}, {{p[2]}, 0.2}, {{p[3]}, 0.2}}, {.lr = 0.1});
  const Step step = session.step();
  backward(Tensor(*p[0]) + *p[1] + *p[2] + *p[3]);
  sgd.step();
  const StepGraph& graph = session.tape().graph();
  CHECK(std::ranges::count(graph.nodes(), "sgd_update", [](const Node& node) { return node.op->name(); }) == 2);
}

TEST_CASE("groups that share a parameter, or whose options are out of range, are errors") {
  OptimizerFixture fixture;
  Parameter &w = fixture.w, &b = fixture.b;
  CHECK_THROWS_WITH_AS(SGD({{.parameters = {&w, &b}}, {.parameters = {&b}, .lr = 0.1}}, {}),
                       "[optimizer] the parameter 'b' was given twice", Error);
  CHECK_THROWS_WITH_AS(Adam({{.parameters = {&w}, .lr = -1}, {.parameters = {&b}}}, {}),
                       "[optimizer] expected a learning rate of at least 0, got -1", Error);
  CHECK_THROWS_WITH_AS(Adam({{.parameters = {&w}, .weight_decay = -1}, {.parameters = {&b}}}, {}),
                       "[optimizer] expected a weight decay of at least 0, got -1", Error);
  CHECK_THROWS_WITH_AS(SGD({{.parameters = {&w}, .lr = 0.1}, {.parameters = {&b}}}, {.lr = 0}),
                       doctest::Contains("in proportion to the optimizer's: expected one above 0, got 0"), Error);
  CHECK_THROWS_AS(SGD({&w}, {.weight_decay = -1}), Error);
}

TEST_CASE("a change of the learning rate needs no new plan") {
  OptimizerFixture fixture;
  SGD optimizer({&fixture.w, &fixture.b}, {.momentum = 0.9});
  for (int step = 0; step < 4; ++step) {
    optimizer.set_lr(lr_of(step));
    fixture.train_step(optimizer, step);
  }
  CHECK(fixture.session.stats().plans == 1);
}

TEST_CASE("small parameters share an update, large ones have their own") {
  CHECK(buckets({10, 20, 30}) == std::vector<int>{3});
  CHECK(buckets(std::vector<std::int64_t>(70, 5)) == std::vector<int>{32, 32, 6});
  CHECK(buckets({kBucketElements / 2, kBucketElements / 2, 1}) == std::vector<int>{2, 1});
  CHECK(buckets({3 * kBucketElements, 5, 2 * kBucketElements}) == std::vector<int>{1, 1, 1});
}

TEST_CASE("parameters with and without weight decay share no update, unless there is no decay") {
  CHECK(buckets({10, 20, 30, 40}, {true, false, false, false}, 0.1) == std::vector<int>{3, 1});
  CHECK(buckets({10, 20, 30, 40}, {true, false, false, false}, 0) == std::vector<int>{4});
}

TEST_CASE("updates begin with the parameters whose gradients come first") {
  Session session({.device = "cpu", .streams = 1});
  std::vector<Parameter*> weights;
  for (int i = 0; i < 40; ++i) {
    weights.push_back(&session.add(message("w", i), {DType::f32, {1, 1}}, ValueKind::parameter));
  }
  SGD optimizer(weights, {});
  const Step step = session.step();
  Tensor y = Array(DType::f32, {1, 1});
  for (Parameter* w : weights) y = linear(y, *w);
  backward(y);
  optimizer.step();
  const StepGraph& graph = session.tape().graph();
  std::vector<std::int32_t> slots;  // slots of the updated parameters, in the order of the updates
  for (const Value& value : graph.values()) {
    if (value.previous != kNoValue) slots.push_back(value.slot);
  }
  REQUIRE(slots.size() == weights.size());
  CHECK(std::ranges::is_sorted(slots, std::ranges::greater{}));
}

TEST_CASE("parameters without a gradient do not change") {
  OptimizerFixture fixture;
  Parameter& idle = fixture.session.add("idle", {DType::f32, {4}}, ValueKind::parameter);
  fixture.session.write(idle, noise({4}, 9));
  SGD optimizer({&fixture.w, &fixture.b, &idle}, {.momentum = 0.9, .weight_decay = 0.5});
  fixture.train_step(optimizer, 0);
  const Array before = noise({4}, 9), after = fixture.session.read(idle);
  CHECK(std::ranges::equal(before.as<float>(), after.as<float>()));
}

TEST_CASE("an epsilon of 0 and a learning rate that is no number are errors") {
  OptimizerFixture fixture;
  CHECK_THROWS_AS(Adam({&fixture.w}, {.epsilon = 0}), Error);
  SGD optimizer({&fixture.w}, {});
  CHECK_THROWS_AS(optimizer.set_lr(std::nan("")), Error);
}

TEST_CASE("gradients of several steps make one update, by their mean") {
  OptimizerFixture fixture;
  SGD sgd({&fixture.w, &fixture.b}, {.lr = 0.5, .momentum = 0.9});
  std::vector<double> expected = elements(fixture), momentum(expected.size());
  for (int update = 0; update < 3; ++update) {
    std::vector<double> mean(expected.size());
    for (int part = 0; part < 3; ++part) {
      const int step = 3 * update + part;
      Step s = fixture.session.step();
      fixture.record_passes(step);
      sgd.accumulate(1.0 / 3);
      if (part == 2) sgd.step();
      s.run();
      const std::vector<double> g = gradients(step);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += g[i] / 3;
    }
    for (std::size_t i = 0; i < mean.size(); ++i) {
      momentum[i] = 0.9 * momentum[i] + mean[i];
      expected[i] -= 0.5 * momentum[i];
    }
  }
  check_elements(fixture, expected);
  CHECK(sgd.updates() == 3);
}

TEST_CASE("an optimizer clips the norm of all gradients together") {
  OptimizerFixture fixture;
  SGD sgd({&fixture.w, &fixture.b}, {.lr = 0.5});
  sgd.clip_norm(0.7);
  compare(fixture, sgd, [](double p, double g, double lr, bool, std::size_t, int step) {
    double sum = 0;
    for (const double x : gradients(step)) sum += x * x;
    return p - lr * g * std::min(1.0, 0.7 / (std::sqrt(sum) + 1e-6));
  });
  CHECK_THROWS_AS(sgd.clip_norm(-1), Error);
}

TEST_CASE(
    "an optimizer clips each element of gradients and of accumulated gradients, and rejects this for a scaled loss") {
  OptimizerFixture fixture;
  SGD sgd({&fixture.w, &fixture.b}, {.lr = 0.5});
  sgd.clip_value(0.3);
  compare(fixture, sgd,
          [](double p, double g, double lr, bool, std::size_t, int) { return p - lr * std::clamp(g, -0.3, 0.3); });
  CHECK_THROWS_AS(sgd.clip_value(-1), Error);

  Session session({.device = "cpu", .streams = 1});
  Parameter& p = session.add("p", {DType::f64, {2}}, ValueKind::parameter);
  session.write(p, Array::from<double>({1, 1}, {2}));
  SGD of_sums({&p}, {.lr = 1.0});
  of_sums.clip_value(2);
  for (int i = 0; i < 2; ++i) {
    Step step = session.step();
    backward(sum(Tensor(p) * Array::from<double>({3, -0.5}, {2})));
    of_sums.accumulate(0.5);
    if (i == 1) of_sums.step();
    step.run();
  }
  CHECK(session.read(p).as<double>()[0] == -1);
  CHECK(session.read(p).as<double>()[1] == 1.5);

  LossScale scale(fixture.session);
  Step step = fixture.session.step();
  backward(scale(sum(Tensor(fixture.w))));
  CHECK_THROWS_WITH_AS(sgd.step(&scale),
                       "[optimizer] clip_value does not know the scale of a scaled loss: use clip_norm", Error);
}

TEST_CASE("optimizers of f64 keep learning rate, clip factor and weights of sums in f64") {
  Session session({.device = "cpu", .streams = 1});
  Parameter& p = session.add("p", {DType::f64, {2}}, ValueKind::parameter);
  session.write(p, Array::from<double>({1, 1}, {2}));
  SGD sgd({&p}, {.lr = 0.1});
  sgd.clip_norm(0.3);
  for (int i = 0; i < 3; ++i) {
    Step step = session.step();
    backward(sum(Tensor(p) * Array::from<double>({3, 4}, {2})));
    sgd.accumulate(1.0 / 3);
    if (i == 2) sgd.step();
    step.run();
  }
  const Array after = session.read(p);
  CHECK(after.as<double>()[0] == doctest::Approx(1 - 0.1 * 3 * 0.3 / (5 + 1e-6)).epsilon(1e-15));
  CHECK(after.as<double>()[1] == doctest::Approx(1 - 0.1 * 4 * 0.3 / (5 + 1e-6)).epsilon(1e-15));
}

TEST_CASE("a step that fails is no update, nor is one that was recorded before it was known to") {
  std::vector<double> results[2];
  for (const bool fails : {false, true}) {
    OptimizerFixture fixture;
    Adam adam({&fixture.w, &fixture.b}, {.lr = 0.1});
    fixture.train_step(adam, 0);
    if (fails) {
      Step bad = fixture.session.step();
      const Tensor y = linear(OptimizerFixture::x(1), fixture.w, fixture.b);
      backward(cross_entropy(y, Array::from<std::int32_t>({kOut}, {1})));
      adam.accumulate(0.5);
      adam.step();
      bad.run();
      Step next = fixture.session.step();
      fixture.record_passes(2);
      adam.step();
      CHECK(adam.updates() == 3);
      CHECK_THROWS_WITH_AS(next.run(), doctest::Contains("label"), Error);
      CHECK_THROWS_WITH_AS(next.run(), doctest::Contains("was discarded"), Error);
      CHECK(adam.updates() == 1);
      CHECK_FALSE(adam.accumulated());
    }
    fixture.train_step(adam, 1);
    CHECK(adam.updates() == 2);
    results[fails ? 1 : 0] = elements(fixture);
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("an average of weights follows them, and can take their place for a while") {
  OptimizerFixture fixture;
  SGD sgd({&fixture.w, &fixture.b}, {.lr = 0.5});
  WeightAverage average(fixture.session, {&fixture.w, &fixture.b}, 0.25);
  std::vector<double> expected;
  for (int step = 0; step < kSteps; ++step) {
    Step s = fixture.session.step();
    fixture.record_passes(step);
    sgd.step();
    average.record(step);
    s.run();
    const std::vector<double> now = elements(fixture);
    if (step == 0) expected = now;
    const double decay = std::min(0.25, step / (9.0 + step));
    for (std::size_t i = 0; i < now.size(); ++i) expected[i] = decay * expected[i] + (1 - decay) * now[i];
  }
  const std::vector<double> own = elements(fixture);
  average.exchange();
  const std::vector<double> averages = elements(fixture);
  average.exchange();
  CHECK(elements(fixture) == own);
  for (std::size_t i = 0; i < averages.size(); ++i) CHECK(std::abs(averages[i] - expected[i]) < 1e-5);
}

TEST_CASE("a parameter without a gradient is left alone by an update by sums, and its next sum begins anew") {
  OptimizerFixture fixture;
  SGD sgd({&fixture.w, &fixture.b}, {.lr = 1});
  const auto add = [&](bool with_w, bool update) {
    Step s = fixture.session.step();
    const Tensor y = with_w ? linear(OptimizerFixture::x(0), fixture.w, fixture.b)
                            : linear(OptimizerFixture::x(0), Array(DType::f32, {kOut, kIn}), fixture.b);
    backward(linear(y, OptimizerFixture::c(0)));
    sgd.accumulate(1);
    if (update) sgd.step();
    s.run();
  };
  std::vector<double> expected = elements(fixture);
  const std::vector<double> g = gradients(0);
  add(true, true);
  add(false, false);
  CHECK(sgd.accumulated());
  add(false, true);  // only b, twice
  CHECK_FALSE(sgd.accumulated());
  add(true, true);
  for (std::size_t i = 0; i < g.size(); ++i) expected[i] -= (i < kOut * kIn ? 2 : 4) * g[i];
  check_elements(fixture, expected);
}

TEST_CASE("gradients update parameters after the delay that was asked for, and the first updates have none") {
  for (const int staleness : {1, 3}) {
    OptimizerFixture fixture({.virtual_ranks = 3, .staleness = staleness});
    SGD sgd({&fixture.w, &fixture.b}, {.lr = 0.1});
    std::vector<double> expected = elements(fixture);
    for (int step = 0; step < kSteps; ++step) {
      fixture.train_step(sgd, step);
      if (step < staleness) continue;
      const std::vector<double> late = gradients(step - staleness);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= 0.1 * late[i];
    }
    check_elements(fixture, expected);
    CHECK(sgd.states().size() == 2 * static_cast<std::size_t>(staleness));
  }
}

TEST_CASE("what compression leaves out of a gradient is in later updates, and small tensors are not compressed") {
  using Method = Compression::Method;
  constexpr std::int64_t kWide = 40, kHigh = 30, kSize = kWide * kHigh;
  for (const Method method : {Method::top_k, Method::random_k, Method::int8, Method::sign}) {
    CAPTURE(name_of(method));
    Session session({.device = "cpu", .streams = 2, .parallel = {.virtual_ranks = 3, .compression = {method, 0.3}}});
    Parameter& w = session.add("w", {DType::f32, {kHigh, kWide}}, ValueKind::parameter);
    Parameter& b = session.add("b", {DType::f32, {kHigh}}, ValueKind::parameter);
    SGD sgd({&w, &b}, {.lr = 0.1});
    std::vector<double> expected(kSize);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const Array x = noise({1, kWide}, step), c = noise({1, kHigh}, 50 + step);
      Step s = session.step();
      backward(linear(linear(x, w, b), c));
      sgd.step();
      s.run();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] -=
            0.1 * static_cast<double>(c.as<float>()[i / kWide]) * static_cast<double>(x.as<float>()[i % kWide]);
      }
    }
    const std::vector<Parameter*> states = sgd.states();
    REQUIRE(states.size() == 1);
    CHECK(states[0]->name() == "optimizer.w.residual");
    const Array rest = session.read(*states[0]), weights = session.read(w);
    CHECK(std::ranges::any_of(rest.as<float>(), [](float value) { return value != 0; }));
    for (std::size_t i = 0; i < 3 * kSize; ++i) expected[i % kSize] += 0.1 * static_cast<double>(rest.as<float>()[i]);
    for (std::size_t i = 0; i < kSize; ++i) {
      CHECK(std::abs(static_cast<double>(weights.as<float>()[i]) - expected[i]) < 5e-6);
    }
  }
}

TEST_CASE("gradients that are accumulated or of a scaled loss are neither compressed nor delayed") {
  OptimizerFixture fixture({.virtual_ranks = 2, .staleness = 1});
  SGD sgd({&fixture.w}, {.lr = 0.1});
  LossScale scale(fixture.session, {});
  Step step = fixture.session.step();
  fixture.record_passes(0);
  CHECK_THROWS_WITH_AS(
      sgd.accumulate(0.5),
      "[optimizer] gradients that are accumulated cannot be compressed or delayed: accumulate one step", Error);
  CHECK_THROWS_WITH_AS(
      sgd.step(&scale),
      "[optimizer] a scaled loss needs gradients that ranks add in every step: train in f32 or bf16, or without "
      "compression, staleness and average_every",
      Error);
  step.discard();
}
