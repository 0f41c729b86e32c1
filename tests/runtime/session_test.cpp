#include "runtime/session.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include "braid/op.h"
#include "models/zoo/blocks/resnet.h"
#include "tests/noise.h"
#include "tests/trained.h"

namespace braid {
namespace {

Array random_labels(std::int64_t count, std::uint64_t seed) {
  Array array(DType::i32, {count});
  Generator generator(seed);
  for (std::int32_t& label : array.as<std::int32_t>()) label = static_cast<std::int32_t>(generator.below(10));
  return array;
}

TEST_CASE("an unchanged step finds its plan, a changed one is replanned") {
  Session session({.device = "cpu", .streams = 2});
  const auto run = [&](std::int64_t size) {
    Step step = session.step();
    const Tensor x = noise({size}, 1);
    return relu(x + x).array().size();
  };
  CHECK(run(8) == 8);
  CHECK(run(8) == 8);
  CHECK(run(5) == 5);
  CHECK(run(8) == 8);
  CHECK(run(4000) == 4000);  // needs a larger arena, which moves
  CHECK(run(8) == 8);
  CHECK(session.stats().plans == 3);
  CHECK(session.stats().cache_hits == 3);
}

TEST_CASE(
    "a fault in a stream is thrown at the next synchronisation and by every read of its step, and the session stays "
    "usable") {
  Session session({.device = "cpu", .streams = 2});
  const Array logits = noise({4, 3}, 1);
  {
    Step step = session.step();
    const Tensor loss = cross_entropy(logits, Array::from<std::int32_t>({0, 1, 7, 2}, {4}));
    const Tensor other = relu(logits);
    step.run();
    for (const Tensor& read : {loss, loss, other}) CHECK_THROWS_AS(read.array(), DataError);
  }
  {
    Step step = session.step();
    cross_entropy(logits, Array::from<std::int32_t>({0, 1, 9, 2}, {4}));
    step.run();
  }
  CHECK_THROWS_AS(session.synchronize(), DataError);
  Step step = session.step();
  CHECK(cross_entropy(logits, Array::from<std::int32_t>({0, 1, 2, 2}, {4})).item() > 0);
}

TEST_CASE("fetched elements stay readable while and after later steps run") {
  Fetched last;
  {
    Session session({.device = "cpu", .streams = 2});
    std::vector<Fetched> fetched;
    for (int run = 0; run < 5; ++run) {
      Step step = session.step();
      const Tensor x = Array::from<float>({1.0f, static_cast<float>(run)}, {2});
      const Tensor y = relu(x + x);  // not kept otherwise
      fetched.push_back(y.fetch());
      relu(y);
      if (run == 3) {
        step.measure();
        CHECK(y.fetch().array().as<float>()[1] == 6);  // asked for afterwards
      } else {
        step.run();
      }
    }
    for (int run = 0; run < 5; ++run) {
      CHECK(fetched[static_cast<std::size_t>(run)].array().as<float>()[1] == static_cast<float>(2 * run));
    }
    CHECK_THROWS_AS(fetched.front().item(), ShapeError);
    Step step = session.step();
    const Fetched asked_first = (Tensor(Array::scalar(2.0f)) + Tensor(Array::scalar(3.0f))).fetch();
    CHECK(asked_first.item() == 5);  // runs the step
    last = (Fetched(asked_first));
  }
  CHECK(last.item() == 5);  // when the session is gone
}

TEST_CASE("what a step that failed or never ran was to bring throws the reason") {
  Session session({.device = "cpu", .streams = 2});
  const Array logits = noise({4, 3}, 1);
  const auto loss = [&](int label) { return cross_entropy(logits, Array::from<std::int32_t>({0, 1, label, 2}, {4})); };
  std::vector<Fetched> fetched;
  for (const int label : {1, 7}) {
    Step step = session.step();
    fetched.push_back(loss(label).fetch());
    step.run();
  }
  {
    Step step = session.step();
    fetched.push_back(loss(1).fetch());
    CHECK_THROWS_AS(step.run(), DataError);  // found in the step before
  }
  CHECK(fetched[0].item() > 0);
  CHECK_THROWS_AS(fetched[1].item(), DataError);
  CHECK_THROWS_AS(fetched[1].item(), DataError);
  CHECK_THROWS_WITH_AS(fetched[2].item(), doctest::Contains("never ran"), Error);
  CHECK_THROWS_WITH_AS(Fetched().item(), doctest::Contains("nothing was fetched"), Error);
}

TEST_CASE("an overwritten version can be neither read nor kept, its next version can") {
  Session session({.device = "cpu", .streams = 1, .intra_op_threads = 1});
  Parameter& mean = session.add("mean", {DType::f32, {1}}, ValueKind::state);
  Parameter& variance = session.add("variance", {DType::f32, {1}}, ValueKind::state);
  Parameter& scale = session.add("scale", {DType::f32, {1}}, ValueKind::parameter);
  Parameter& shift = session.add("shift", {DType::f32, {1}}, ValueKind::parameter);
  const Array x = Array::from<float>({1, 3}, {2, 1});
  {
    Step step = session.step();
    const Tensor old = mean;
    batch_norm(x, {scale, shift, mean, variance}, {}, true);
    CHECK_THROWS_AS(old.keep(), ShapeError);
    step.run();
    CHECK_THROWS_AS(old.array(), Error);
    CHECK(Tensor(mean).item() == doctest::Approx(0.2));
  }
  Step step = session.step();
  Tensor(mean).keep();
  CHECK_THROWS_AS(batch_norm(x, {scale, shift, mean, variance}, {}, true), ShapeError);
}

TEST_CASE("steps of several sessions may end in any order") {
  auto a = std::make_unique<Session>(SessionOptions{.device = "cpu", .streams = 1});
  Session b({.device = "cpu", .streams = 1});
  std::unique_ptr<Step> step_a(new Step(a->step()));
  const Step step_b = b.step();
  step_a.reset();
  a.reset();
  CHECK((Tensor(Array::scalar(1.0f)) + Tensor(Array::scalar(2.0f))).item() == 3);
}

TEST_CASE("options out of range are refused") {
  CHECK_THROWS_AS(Session({.device = "cpu", .streams = -1}), Error);
  CHECK_THROWS_AS(Session({.device = "cpu", .intra_op_threads = -1}), Error);
  CHECK_THROWS_AS(Session({.device = "cpu", .policy = "fastest"}), Error);
  CHECK_THROWS_WITH_AS(Session({.device = "cpu", .convolution = "winograd"}),
                       "[session] expected convolution auto or direct, got winograd", Error);
  CHECK_THROWS_AS(Session({.device = "cuda"}), DeviceError);
  CHECK_THROWS_AS(Session({.device = "tpu"}), DeviceError);
}

TEST_CASE("direct convolutions are exact for integers") {
  // Large enough for Winograd's algorithm.
  Array x(DType::f32, {2, 16, 16, 32}), w(DType::f32, {32, 3, 3, 32});
  for (std::size_t i = 0; i < x.as<float>().size(); ++i) x.as<float>()[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < w.as<float>().size(); ++i) w.as<float>()[i] = static_cast<float>(i % 5) - 2;
  Session session({.device = "cpu", .streams = 1, .convolution = "direct"});
  Step step = session.step();
  const auto convolved = [&](DType dtype) {
    return cast(conv2d(cast(x, dtype), cast(w, dtype), {.padding = 1}), DType::f64).keep();
  };
  const Tensor y = convolved(DType::f32), z = convolved(DType::f64);
  step.run();
  const Array fast = y.array(), exact = z.array();
  CHECK(std::ranges::equal(fast.as<double>(), exact.as<double>()));
}

/// A few forward and backward passes.
testing::Trained train(Session& session, Module& model, int steps) {
  testing::Trained result;
  for (int i = 0; i < steps; ++i) {
    Step step = session.step();
    const auto seed = static_cast<std::uint64_t>(i);
    const Tensor loss = cross_entropy(model(noise({4, 12, 12, 3}, seed)), random_labels(4, seed));
    backward(loss);
    step.run();
    result.losses.push_back(loss.item());
  }
  result.tensors = testing::tensors_of(session);
  return result;
}

/// Delays every launch by a random time, so that streams interleave differently each time.
class RandomDelays final : public LaunchObserver {
 public:
  explicit RandomDelays(std::uint64_t seed) : seed_(seed) {}
  void before_launch(int stream, std::int32_t index) override {
    const std::uint64_t word =
        mix_bits(seed_ ^ (static_cast<std::uint64_t>(index) << 8) ^ static_cast<std::uint64_t>(stream));
    if (word % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(word % 300));
  }
  void after_launch(int, std::int32_t) override {}

 private:
  std::uint64_t seed_;
};

TEST_CASE("random delays in the streams change nothing") {
  const auto run = [](int streams, LaunchObserver* observer) {
    Session session({.device = "cpu", .streams = streams, .intra_op_threads = 1});
    session.set_observer(observer);
    models::ResNet model(session, 20, {});
    return train(session, model, 3);
  };
  const testing::Trained expected = run(1, nullptr);
  for (const int streams : {2, 3, 4, 8}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      RandomDelays delays(seed);
      testing::check_equal(run(streams, &delays), expected);
    }
  }
}

/// y = x, in a thread that is noted. Its cost is as if it did this arithmetic.
struct NoteThreadAttributes {
  double flops = 0;
  static constexpr std::string_view kNames[] = {"flops"};
};
std::thread::id noted_thread;
class NoteThread final : public OpWith<NoteThread, NoteThreadAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "test_note_thread"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override {
    outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape});
  }
  Work work(std::span<const ValueDesc>, std::span<const ValueDesc>) const override {
    return {.flops = attributes_.flops};
  }
};

TEST_CASE("a step of a few microseconds runs in the thread of run(), unless it is observed, with the same bits") {
  struct Observer final : LaunchObserver {
    void before_launch(int, std::int32_t) override {}
    void after_launch(int, std::int32_t) override {}
  } observer;
  register_kernel(DeviceType::cpu, "test_note_thread", [](const KernelSpec& spec) {
    return function_kernel(
        [bytes = sizeof(float) * static_cast<std::size_t>(spec.inputs[0].shape.size())](auto inputs, auto outputs) {
          noted_thread = std::this_thread::get_id();
          std::memcpy(outputs[0], inputs[0], bytes);
        });
  });
  std::vector<Array> results;
  for (const bool observed : {false, true}) {
    Session session({.device = "cpu", .streams = 2});
    if (observed) session.set_observer(&observer);
    for (const double flops : {0.0, 1e9}) {
      Step step = session.step();
      const Tensor x = apply_op(std::make_shared<NoteThread>(flops), {noise({3, 16}, 1)});
      const Tensor y = linear(relu(linear(x, noise({32, 16}, 2))), noise({4, 32}, 3));
      step.run();
      results.push_back(y.array());
      CHECK((noted_thread == std::this_thread::get_id()) == (flops == 0 && !observed));
    }
  }
  for (const Array& result : results) {
    CHECK(std::memcmp(result.data(), results.front().data(), result.bytes()) == 0);
  }
}

TEST_CASE("several sessions live and run at the same time, also while they measure implementations") {
  std::vector<std::thread> threads;
  std::vector<std::vector<double>> losses(3);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    threads.emplace_back([&losses, i] {
      SessionOptions options{.device = "cpu", .streams = 2};
      if (i == 0) options.intra_op_threads = 1;  // otherwise, several widths are measured
      options.autotune = i > 0;
      Session session(options);
      models::ResNet model(session, 20, {});
      losses[i] = train(session, model, 2).losses;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(losses[0] == losses[1]);
  CHECK(losses[0] == losses[2]);
}

TEST_CASE("a session may end while a step is running") {
  for (int i = 0; i < 5; ++i) {
    Session session({.device = "cpu", .streams = 3, .intra_op_threads = 1});
    models::ResNet model(session, 20, {});
    Step step = session.step();
    backward(cross_entropy(model(noise({4, 12, 12, 3}, 0)), random_labels(4, 0)));
    step.run();
  }
}

/// A clock that jumps: a launch takes a millisecond of its stream, so that plans with several streams win, or in other
/// streams than the first a hundred, so that plans with one stream do.
class LaunchClock final : public LaunchObserver {
 public:
  explicit LaunchClock(bool concurrent) : elsewhere_(concurrent ? 1 : 100) {}
  void before_launch(int stream, std::int32_t) override {
    busy_.at(static_cast<std::size_t>(stream)) += stream > 0 ? elsewhere_ : 1;
  }
  void after_launch(int, std::int32_t) override {}

  /// While nothing runs.
  std::chrono::steady_clock::time_point now() {
    now_ += std::chrono::milliseconds(std::ranges::max(busy_));
    busy_ = {};
    return now_;
  }

 private:
  const int elsewhere_;
  std::array<int, 8> busy_{};  // milliseconds of each stream since the clock was read
  std::chrono::steady_clock::time_point now_;
};

/// Two independent chains, where concurrency is easy. Returns the streams in use.
std::size_t run_two_chains(Session& session) {
  Step step = session.step();
  for (int chain = 0; chain < 2; ++chain) {
    Tensor y = Array(DType::f32, {64, 256});
    for (int i = 0; i < 5; ++i) y = linear(y, Array(DType::f32, {256, 256}));
  }
  step.run();
  session.synchronize();
  return step.plan().commands.used_streams();
}

TEST_CASE("the plan whose steps take the least time is kept") {
  for (const bool concurrent : {true, false}) {
    CAPTURE(concurrent);
    Session session({.device = "cpu", .threads = 2});
    LaunchClock clock(concurrent);
    session.set_observer(&clock);
    session.set_clock([&] { return clock.now(); });
    CHECK(run_two_chains(session) == 1);
    bool tried_both = false;
    for (int steps = 1; session.choosing(); ++steps) {
      REQUIRE(steps < 200);
      if (run_two_chains(session) == 2) tried_both = true;
    }
    CHECK(tried_both);
    CHECK(run_two_chains(session) == (concurrent ? 2 : 1));
    const std::string report = session.choice_report();
    CAPTURE(report);
    CHECK((report.find(" on 2 streams", report.find("; kept ")) != std::string::npos) == concurrent);
  }
}

TEST_CASE("plans are made when their turn comes, each only once") {
  Session session({.device = "cpu", .threads = 2});
  // One chain: whatever the policy, there is one plan for all cores and one for a single core, or just one if the nodes
  // are too small for two.
  const auto run = [&] {
    Step step = session.step();
    relu(relu(noise({8}, 1)));
    step.run();
  };
  for (int i = 0; i < 100; ++i) run();
  CHECK_FALSE(session.choosing());
  CHECK_MESSAGE(session.choice_report().find("streams") == std::string::npos, session.choice_report());
  CHECK(session.stats().plans == 1);
}

TEST_CASE("with one core there is a single candidate") {
  Session session({.device = "cpu", .threads = 1});
  Step step = session.step();
  relu(noise({8}, 1));
  step.run();
  CHECK(step.plan().policy == "serial");
  CHECK(session.choice_report().empty());
}

}  // namespace
}  // namespace braid
