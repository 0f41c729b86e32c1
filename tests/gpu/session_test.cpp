// Whole training steps on the GPU: the same bits however many streams run them, captured or not, and the same gradients
// as on the CPU.

#include "runtime/session.h"

#include <cmath>
#include <cstring>

#include "models/registry.h"
#include "tests/gpu/gpu_test.h"
#include "train/optimizer.h"

namespace braid::testing {
namespace {

struct Training {
  std::vector<double> losses;
  std::vector<Array> tensors;  // weights, running statistics and momentum
};

Array random_images(const Shape& shape, std::uint64_t seed) {
  Array array(DType::f32, shape);
  Generator generator(seed);
  for (float& value : array.as<float>()) value = generator.normal();
  return array;
}

Training train(const SessionOptions& options, std::string_view name, int steps, DType dtype = DType::f32) {
  constexpr std::int64_t kBatch = 8;
  constexpr int kClasses = 10;
  Session session(options);
  models::ModelOptions model_options;
  model_options.classes = kClasses;
  model_options.image_shape = {32, 32, 3};
  if (name == "googlenet") model_options.width = 0.5;
  const auto model = models::make_model(name, session, model_options);
  SGD sgd(model->parameters(), {.lr = 0.02, .momentum = 0.9, .weight_decay = 1e-4});
  Array labels(DType::i32, {kBatch});
  for (std::int64_t i = 0; i < kBatch; ++i) labels.as<std::int32_t>()[static_cast<std::size_t>(i)] = i % kClasses;
  Training result;
  for (int i = 0; i < steps; ++i) {
    const Array images = random_images({kBatch, 32, 32, 3}, static_cast<std::uint64_t>(i % 4));
    Step step = session.step();
    const Tensor loss = cross_entropy((*model)(cast(images, dtype)), labels);
    backward(loss);
    sgd.step();
    step.run();
    result.losses.push_back(loss.item());
  }
  for (const Parameter* parameter : session.parameters()) result.tensors.push_back(session.read(*parameter));
  return result;
}

void check_equal(const Training& a, const Training& b) {
  CHECK(a.losses == b.losses);
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    CAPTURE(i);
    CHECK(std::memcmp(a.tensors[i].data(), b.tensors[i].data(), a.tensors[i].bytes()) == 0);
  }
}

SessionOptions on_gpu(int streams) {
  SessionOptions options;
  options.device = "cuda";
  options.streams = streams;
  return options;
}

constexpr std::string_view kModels[] = {"resnet20", "googlenet", "pathnet_conv"};

}  // namespace

GPU_TEST_CASE("100 steps are bitwise equal with 1, 2, 4 and 8 streams") {
  for (const std::string_view model : kModels) {
    CAPTURE(model);
    const Training serial = train(on_gpu(1), model, 100);
    for (const double loss : serial.losses) REQUIRE(std::isfinite(loss));
    CHECK(serial.losses.back() < serial.losses.front());
    for (const int streams : {2, 4, 8}) {
      CAPTURE(streams);
      check_equal(serial, train(on_gpu(streams), model, 100));
    }
  }
}

GPU_TEST_CASE("20 steps in bf16 are bitwise equal with 1 and 4 streams") {
  for (const std::string_view model : kModels) {
    CAPTURE(model);
    check_equal(train(on_gpu(1), model, 20, DType::bf16), train(on_gpu(4), model, 20, DType::bf16));
  }
}

GPU_TEST_CASE("a replayed CUDA graph gives the same bits as single launches") {
  for (const std::string_view model : kModels) {
    CAPTURE(model);
    SessionOptions uncaptured = on_gpu(4);
    uncaptured.cuda_graphs = false;
    check_equal(train(on_gpu(4), model, 20), train(uncaptured, model, 20));
  }
}

GPU_TEST_CASE("streams with SMs of their own give the same bits as one stream, captured or not") {
  const int sms = make_backend({DeviceType::cuda, 0})->info().capacity;
  for (const std::string_view model : kModels) {
    CAPTURE(model);
    SessionOptions partitioned = on_gpu(2);
    const int first = sms * 2 / 3 / 8 * 8;  // whole groups, and a rest that is none: 88 and 44 on an H200
    partitioned.partition = {first, sms - first};
    const Training serial = train(on_gpu(1), model, 20);
    check_equal(serial, train(partitioned, model, 20));
    partitioned.cuda_graphs = false;
    check_equal(serial, train(partitioned, model, 20));
  }
}

GPU_TEST_CASE("a step on the GPU changes the weights as one on the CPU does") {
  // Two libraries round differently, in sums of up to some ten thousand products.
  constexpr double kTolerance = 1e-3;
  for (const std::string_view model : kModels) {
    CAPTURE(model);
    const Training gpu = train(on_gpu(2), model, 1);
    const Training cpu = train({.device = "cpu", .streams = 1}, model, 1);
    CHECK(gpu.losses[0] == doctest::Approx(cpu.losses[0]).epsilon(kTolerance));
    REQUIRE(gpu.tensors.size() == cpu.tensors.size());
    for (std::size_t i = 0; i < gpu.tensors.size(); ++i) {
      CAPTURE(i);
      double difference = 0, size = 0;
      for (std::size_t e = 0; e < gpu.tensors[i].as<float>().size(); ++e) {
        const double own = gpu.tensors[i].as<float>()[e], other = cpu.tensors[i].as<float>()[e];
        difference += (own - other) * (own - other);
        size += other * other;
      }
      CHECK(std::sqrt(difference) <= kTolerance * std::sqrt(size) + 1e-6);
    }
  }
}

}  // namespace braid::testing
