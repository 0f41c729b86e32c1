// What a training does in addition to plain steps: measuring, choosing, prefetching, several sessions, changing graphs,
// limits of memory and of f16. Each with the bits that plain steps give, wherever that is promised.

#include "tests/gpu/training.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "models/zoo/wired/pathnet.h"
#include "runtime/compile/plan_cache.h"
#include "tests/memory.h"

namespace braid::testing {
namespace {

/// Another implementation of a convolution may round otherwise, and the error grows with every step: compares three.
void check_close(const Training& a, const Training& b) {
  constexpr double kRounding = 1e-2;
  for (std::size_t i = 0; i < 3; ++i) CHECK(a.losses[i] == doctest::Approx(b.losses[i]).epsilon(kRounding));
}

}  // namespace

DEVICE_TEST_CASE("a measured step has one time for every node, and gives the same bits") {
  Trainee plain(on_device(2), "googlenet"), measured(on_device(2), "googlenet");
  for (int i = 0; i < 4; ++i) {
    plain.step();
    measured.record([](Step& step) {
      const std::vector<LaunchTime> times = step.measure().launches;
      std::vector<int> found(static_cast<std::size_t>(step.graph().node_count()));
      for (const LaunchTime& time : times) {
        ++found[static_cast<std::size_t>(time.index)];
        CHECK(time.finish > time.start);
      }
      for (NodeId node = 0; node < step.graph().node_count(); ++node) {
        CHECK(found[static_cast<std::size_t>(node)] == (step.graph().node(node).is_view ? 0 : 1));
      }
    });
  }
  check_equal(plain.result(), measured.result());
}

DEVICE_TEST_CASE("comparing plans until one is kept trains as a single stream does") {
  Trainee chosen(on_device(0), "googlenet"), serial(on_device(1), "googlenet");
  for (int i = 0; i < 4 || (chosen.session().choosing() && i < 1000); ++i) {
    chosen.step();
    serial.step();
  }
  CHECK_FALSE(chosen.session().choosing());
  if (tests_gpu()) {  // plans there differ in their algorithms
    check_close(serial.result(), chosen.result());
  } else {
    check_equal(serial.result(), chosen.result());
  }
}

DEVICE_TEST_CASE("implementations chosen by their measured times train as well as those chosen by estimates") {
  for (const std::string_view model : tested_models()) {
    CAPTURE(model);
    SessionOptions options = on_device(4);
    const Training estimated = train(options, model, 3);
    options.autotune = true;
    const Training measured = train(options, model, 3);
    check_close(estimated, measured);
  }
}

GPU_TEST_CASE("streams of few SMs train with measured algorithms for few SMs") {
  SessionOptions options = on_device(1);
  options.tf32 = true;
  const Training whole = train(options, "googlenet", 3);
  options.deterministic = false;
  options.autotune = true;
  options.partition = {16, 16};
  check_close(whole, train(options, "googlenet", 3));
}

DEVICE_TEST_CASE("prefetched batches give the same bits") {
  const int count = steps(20);
  Trainee trainee(on_device(2), "resnet20");
  std::vector<Array> next{batch_images(0), batch_labels()};
  for (int i = 0; i < count; ++i) {
    trainee.record(next[0], next[1], [&](Step& step) {
      step.run();
      next = {batch_images(i + 1), batch_labels()};
      trainee.session().prefetch(next);
    });
  }
  check_equal(train(on_device(2), "resnet20", count), trainee.result());
}

DEVICE_TEST_CASE("sessions that take turns, or run in threads of their own, give the bits that each gives alone") {
  const int count = steps(20);
  std::vector<Training> alone;
  for (const std::string_view model : tested_models()) alone.push_back(train(on_device(2), model, count));
  std::vector<std::unique_ptr<Trainee>> trainees;
  for (const std::string_view model : tested_models())
    trainees.push_back(std::make_unique<Trainee>(on_device(2), model));
  for (int i = 0; i < count; ++i) {
    for (const auto& trainee : trainees) trainee->step();
  }
  for (std::size_t i = 0; i < alone.size(); ++i) check_equal(alone[i], trainees[i]->result());
  trainees.clear();

  std::vector<Training> together(alone.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < alone.size(); ++i) {
      threads.emplace_back([&, i] { together[i] = train(on_device(2), tested_models()[i], count); });
    }
  }
  for (std::size_t i = 0; i < alone.size(); ++i) check_equal(alone[i], together[i]);
}

DEVICE_TEST_CASE("sessions in threads of their own that measure implementations train as alone with estimates") {
  SessionOptions options = on_device(2);
  const Training alone = train(options, "googlenet", 3);
  options.autotune = true;
  Training together[2];
  {
    std::vector<std::jthread> threads;
    for (Training& training : together) threads.emplace_back([&] { training = train(options, "googlenet", 3); });
  }
  for (const Training& training : together) check_close(alone, training);
}

TEST_CASE("a second GPU gives the bits of the first" * doctest::skip(!has_gpu() || cuda::device_count() < 2)) {
  SessionOptions second = on_device(4);
  second.device = "cuda:1";
  Trainee a(on_device(4), "googlenet"), b(second, "googlenet");
  if (a.session().backend().info().name != b.session().backend().info().name) return;  // may use other algorithms
  for (int i = 0; i < 10; ++i) {                                                       // at the same time
    a.step();
    b.step();
  }
  check_equal(a.result(), b.result());
}

DEVICE_TEST_CASE("a path that changes with every step trains with the same bits on 1 and 4 streams") {
  constexpr int kPaths = 6;
  const models::PathNetOptions options{.form = models::PathNetOptions::Form::conv,
                                       .grid = {.layers = 3, .modules = 6, .active = 3},
                                       .width = 8,
                                       .image_shape = {32, 32, 3}};
  Generator random(3);
  std::vector<models::Genotype> paths;
  for (int i = 0; i < kPaths; ++i) paths.push_back(models::random_genotype(options.grid, random));
  const auto run = [&](int streams) {
    Session session(on_device(streams));
    models::PathNet net(session, options);
    const int task = net.add_task("task", kClasses);
    SGD sgd(net.parameters(), {.lr = 0.02});
    Training training;
    for (int i = 0; i < 4 * kPaths; ++i) {
      Step step = session.step();
      const Tensor loss = cross_entropy(
          net.forward(Tensor(batch_images(i)), paths[static_cast<std::size_t>(i % kPaths)], task), batch_labels());
      backward(loss);
      sgd.step();
      step.run();
      training.losses.push_back(loss.item());
    }
    CHECK(session.stats().plans == kPaths);  // a path that comes back finds its plan
    CHECK((session.stats().captures > 0) == tests_gpu());
    training.tensors = tensors_of(session);
    return training;
  };
  check_equal(run(1), run(4));
}

DEVICE_TEST_CASE("plans of many shapes take no more host memory than the cache of plans counts") {
  for (const std::string_view name : tested_models()) {
    CAPTURE(name);
    Session session(on_device(4));
    const auto model = models::make_model(name, session, {.classes = kClasses, .image_shape = {32, 32, 3}});
    std::int64_t before = 0, nodes = 0;
    for (std::int64_t batch = 20; batch > 0; --batch) {  // the first needs the largest arena
      for (int run = 0; run < 4; ++run) {                // and each is captured
        Step step = session.step();
        const NoGrad no_grad;
        (*model)(noise({batch, 32, 32, 3})).keep();
        step.run();
        session.synchronize();
        if (batch <= 16 && run == 0) nodes += step.graph().node_count();
      }
      if (batch == 17) before = resident_bytes();
    }
    CHECK(resident_bytes() - before <= nodes * PlanCache::node_bytes(session.device().type));
  }
}

DEVICE_TEST_CASE("a limit of memory is kept, and changes losses by rounding only") {
  for (const std::string_view model : tested_models()) {
    CAPTURE(model);
    Trainee free(on_device(4), model);
    for (int i = 0; i < 3; ++i) free.step();
    const auto arena = static_cast<std::int64_t>(free.session().stats().arena_bytes);
    const auto check_within = [&](std::int64_t limit) {
      SessionOptions options = on_device(4);
      options.memory_limit = limit;
      Trainee limited(options, model);
      for (int i = 0; i < 3; ++i) limited.step();
      CHECK(static_cast<std::int64_t>(limited.session().stats().arena_bytes) <= limit);
      CHECK(limited.session().memory_report() != "");
      check_close(free.result(), limited.result());
    };
    try {
      check_within(arena * 17 / 20);
    } catch (const OutOfMemory&) {  // kernels of some devices need workspace that nothing can be traded for
      check_within(arena - 1);
    }
  }
}

DEVICE_TEST_CASE(
    "in f16 the first steps overflow and change no weight, and the others train, with the same bits on 1 and 4 "
    "streams") {
  constexpr int kSteps = 32;
  constexpr float kTooLarge = 0x1p34f;
  const auto run = [&](int streams) {
    Trainee trainee(on_device(streams), "resnet20", DType::f16, kTooLarge);
    for (int i = 0; i < kSteps; ++i) trainee.step();
    const auto read = [&](const Parameter& parameter) { return trainee.session().read(parameter); };
    const int updates = read(trainee.scale().updates()).as<std::int32_t>()[0];
    CHECK(updates > 0);
    CHECK(updates < kSteps);
    CHECK(read(trainee.scale().scale()).as<float>()[0] ==
          std::ldexp(kTooLarge, updates - kSteps));  // halved by each overflow
    Training result = trainee.result();
    CHECK(result.losses[4] == result.losses[0]);  // the same batch and weights
    for (const double loss : result.losses) CHECK(std::isfinite(loss));
    CHECK(result.losses.back() < result.losses[3]);
    return result;
  };
  check_equal(run(1), run(4));
}

}  // namespace braid::testing
