#include <doctest/doctest.h>

#include "data/loader/loader.h"
#include "data/synthetic.h"
#include "models/zoo/blocks/resnet.h"
#include "runtime/session.h"
#include "tests/effort.h"
#include "tests/trained.h"
#include "train/run/factories.h"

namespace braid {
namespace {

using testing::Trained, testing::tensors_of;

Trained train(int streams, int width, int steps, DType dtype = DType::f32) {
  Session session({.device = "cpu", .streams = streams, .intra_op_threads = width, .threads = 3, .seed = 7});
  models::ResNet model(session, 20, {.channels = 1});
  SGD sgd(model.parameters(), {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 1e-4f, .nesterov = true});
  const auto loss_scale = make_loss_scale(dtype, session);
  Loader loader(synthetic({.size = 320, .shape = {28, 28, 1}}),
                {.batch_size = 8, .shuffle = true, .transform = {.crop_padding = 2, .flip = true}});
  Trained result;
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
  result.tensors = tensors_of(session);
  return result;
}

TEST_CASE("nodes of any width give the same bits, on any number of streams, in every precision") {
  const auto check = [](DType dtype, int steps, std::initializer_list<std::pair<int, int>> settings) {
    CAPTURE(dtype);
    const Trained serial = train(1, 1, steps, dtype);
    for (const auto& [streams, width] : settings) {
      CAPTURE(streams);
      CAPTURE(width);
      testing::check_equal(serial, train(streams, width, steps, dtype));
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
