#include <doctest/doctest.h>

#include <cstdlib>
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

TEST_CASE("50 steps of ResNet-20 are bitwise equal with 1, 2 and 4 streams") {
  const int steps = testing::kOnce ? 5 : 50;
  const Training serial = train(1, 1, steps);
  CHECK((testing::kOnce || serial.losses.back() < serial.losses.front()));
  if (!testing::kOnce) check_equal(serial, train(2, 1, steps));
  check_equal(serial, train(4, 1, steps));
}

TEST_CASE("nodes of any width give the same bits, on any number of streams") {
  const int steps = testing::kOnce ? 2 : 5;
  const Training narrow = train(1, 1, steps);
  for (const auto& [streams, width] : {std::pair{3, 0}, {3, 2}, {1, 2}, {1, 3}, {1, 0}, {3, 3}}) {
    if (testing::kOnce && (streams == 1 || width == 3)) continue;
    CAPTURE(streams);
    CAPTURE(width);
    check_equal(narrow, train(streams, width, steps));
  }
}

TEST_CASE("mixed precision gives the same bits on any number of streams too") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    if (testing::kOnce && dtype != DType::f16) continue;
    CAPTURE(dtype);
    check_equal(train(1, 1, 2, dtype), train(3, 2, 2, dtype));
    if (!testing::kOnce) check_equal(train(1, 1, 8, dtype), train(4, 1, 8, dtype));
  }
}

}  // namespace
}  // namespace braid
