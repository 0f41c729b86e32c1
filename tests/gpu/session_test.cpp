// Whole training steps on the device: the same bits however many streams run them, captured or not, and the same
// gradients as on the CPU.

#include "runtime/session.h"

#include <cmath>

#include "tests/gpu/training.h"

namespace braid::testing {

TEST_SUITE_BEGIN("smoke");

DEVICE_TEST_CASE("a few steps train, and their plan becomes a CUDA graph") {
  Trainee trainee(on_device(4), "resnet20");
  for (int i = 0; i < 5; ++i) trainee.step();
  for (const double loss : trainee.result().losses) CHECK(std::isfinite(loss));
  CHECK((trainee.session().stats().captures > 0) == tests_gpu());
}

TEST_SUITE_END();

DEVICE_TEST_CASE("100 steps are bitwise equal with 1, 2, 4 and 8 streams") {
  for (const std::string_view model : tested_models()) {
    CAPTURE(model);
    const Training serial = train(on_device(1), model, steps(100));
    for (const double loss : serial.losses) REQUIRE(std::isfinite(loss));
    CHECK(serial.losses.back() < serial.losses.front());
    for (const int streams : {2, 4, 8}) {
      CAPTURE(streams);
      check_equal(serial, train(on_device(streams), model, steps(100)));
    }
  }
}

GPU_TEST_CASE("20 steps in bf16 are bitwise equal with 1 and 4 streams") {
  for (const std::string_view model : tested_models()) {
    CAPTURE(model);
    check_equal(train(on_device(1), model, steps(20), DType::bf16), train(on_device(4), model, steps(20), DType::bf16));
  }
}

DEVICE_TEST_CASE("a replayed CUDA graph gives the same bits as single launches") {
  for (const std::string_view model : tested_models()) {
    CAPTURE(model);
    SessionOptions uncaptured = on_device(4);
    uncaptured.cuda_graphs = false;
    check_equal(train(on_device(4), model, steps(20)), train(uncaptured, model, steps(20)));
  }
}

GPU_TEST_CASE("streams with their own SMs give the same bits as one stream, captured or not") {
  const int sms = make_backend({DeviceType::cuda, 0})->info().capacity;
  for (const std::string_view model : tested_models()) {
    CAPTURE(model);
    SessionOptions partitioned = on_device(2);
    const int first = sms * 2 / 3 / 8 * 8;  // whole groups, and a rest that is none: 88 and 44 on an H200
    partitioned.partition = {first, sms - first};
    const Training serial = train(on_device(1), model, 20);
    check_equal(serial, train(partitioned, model, 20));
    partitioned.cuda_graphs = false;
    check_equal(serial, train(partitioned, model, 20));
  }
}

DEVICE_TEST_CASE("a step changes the weights as one on the CPU does") {
  // Two libraries round differently. Where a maximum or a ReLU depends on the last bits, the gradient takes another
  // path.
  constexpr double kTolerance = 5e-2;
  for (const std::string_view model : tested_models()) {
    CAPTURE(model);
    const Training before = train(on_device(2), model, 0), device = train(on_device(2), model, 1);
    const Training cpu = train({.device = "cpu", .streams = 1}, model, 1);
    CHECK(device.losses[0] == doctest::Approx(cpu.losses[0]).epsilon(1e-3));
    REQUIRE(device.tensors.size() == cpu.tensors.size());
    for (std::size_t i = 0; i < device.tensors.size(); ++i) {
      CAPTURE(i);
      double difference = 0, change = 0;
      for (std::size_t e = 0; e < device.tensors[i].as<float>().size(); ++e) {
        const double own = device.tensors[i].as<float>()[e], other = cpu.tensors[i].as<float>()[e];
        const double old = i < before.tensors.size() ? before.tensors[i].as<float>()[e] : 0;  // none: momentum
        difference += (own - other) * (own - other);
        change += (other - old) * (other - old);
      }
      CHECK(std::sqrt(difference) <= kTolerance * std::sqrt(change) + 1e-6);
    }
  }
}

}  // namespace braid::testing
