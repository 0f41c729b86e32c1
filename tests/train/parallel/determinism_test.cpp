#include <doctest/doctest.h>

#include <cstring>

#include "data/loader/loader.h"
#include "data/synthetic.h"
#include "models/zoo/blocks/resnet.h"
#include "runtime/session.h"
#include "tests/effort.h"
#include "train/run/factories.h"

namespace braid {
namespace {

struct Training {
  std::vector<double> losses;
  std::vector<Array> tensors;  // weights, running statistics and momentum
};

Training train(int streams, int width, int steps, DType dtype = DType::f32) {
  Session session({.device = "cpu", .streams = streams, .width = width, .threads = 3, .seed = 7});
  models::ResNet model(session, 20, {.channels = 1});
  SGD sgd(model.parameters(), {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 1e-4f, .nesterov = true});
  const auto loss_scale = make_loss_scale(dtype, session);
  Loader loader(synthetic({.size = 320, .shape = {28, 28, 1}}),
                {.batch_size = 8, .shuffle = true, .transform = {.crop_padding = 2, .flip = true}});
  Training result;
  while (static_cast<int>(result.losses.size()) < steps) {
    for (const Batch& batch : loader) {
      if (static_cast<int>(result.losses.size()) == steps) break;
      Step step = session.step();
      const Tensor loss = cross_entropy(model(cast(batch.images, dtype)), batch.labels, 0.1);
      backward(loss_scale == nullptr ? loss : (*loss_scale)(loss));
      sgd.step(loss_scale.get());
      step.run();
      result.losses.push_back(loss.item());
    }
  }
  for (const Parameter* parameter : session.parameters()) result.tensors.push_back(session.read(*parameter));
  return result;
}

void check_equal(const Training& a, const Training& b) {
  CHECK(a.losses == b.losses);
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    CHECK(std::memcmp(a.tensors[i].data(), b.tensors[i].data(), a.tensors[i].bytes()) == 0);
  }
}

TEST_CASE("nodes of any width give the same bits, on any number of streams, in every precision") {
  const auto check = [](DType dtype, int steps, std::initializer_list<std::pair<int, int>> settings) {
    CAPTURE(dtype);
    const Training serial = train(1, 1, steps, dtype);
    for (const auto& [streams, width] : settings) {
      CAPTURE(streams);
      CAPTURE(width);
      check_equal(serial, train(streams, width, steps, dtype));
    }
    return serial.losses;
  };
  if (testing::kOnce) {
    check(DType::f32, 5, {{4, 1}, {3, 0}, {3, 2}});
    check(DType::f16, 2, {{3, 2}});
    return;
  }
  const std::vector<double> losses = check(DType::f32, 50, {{4, 1}});
  CHECK(losses.back() < losses.front());
  check(DType::f32, 5, {{2, 1}, {3, 0}, {3, 2}, {1, 2}, {1, 3}, {1, 0}, {3, 3}});
  for (const DType dtype : {DType::f16, DType::bf16}) check(dtype, 5, {{3, 2}, {4, 1}});
}

}  // namespace
}  // namespace braid
