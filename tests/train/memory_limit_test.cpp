#include <doctest/doctest.h>

#include "autograd/functions.h"
#include "models/registry.h"
#include "runtime/session.h"
#include "tests/models/small_model.h"
#include "tests/trained.h"
#include "train/run/factories.h"

namespace braid {
namespace {

/// Its tensors include the logits and gradients of every step.
struct LimitedTraining : testing::Trained {
  std::int64_t arena_bytes = 0;
  std::string traded;
};

/// Trains for some steps, or only plans the first.
LimitedTraining train(std::string_view name, DType dtype, std::int64_t limit, bool only_plans = false) {
  Session session({.device = "cpu", .streams = 1, .intra_op_threads = 1, .seed = 7, .memory_limit = limit});
  const Shape image{32, 32, 3};
  const auto model = models::make_model(name, session, small_model(image));
  SGD sgd(model->parameters(), {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 1e-4f, .nesterov = true});
  const auto loss_scale = make_loss_scale(dtype, session);
  LimitedTraining result;
  for (std::uint64_t i = 0; i < 4; ++i) {
    Step step = session.step();
    const Tensor logits = (*model)(cast(noise({8, image[0], image[1], image[2]}, i + 1), dtype));
    const Tensor loss = cross_entropy(logits, labels(8));
    backward(loss_scale == nullptr ? loss : (*loss_scale)(loss));
    std::vector<Tensor> kept{logits.keep()};
    for (const Parameter* parameter : model->parameters()) {
      if (has_gradient(*parameter)) kept.push_back(gradient(*parameter).keep());
    }
    sgd.step(loss_scale.get());
    step.plan_ahead();
    result.traded = session.memory_report();
    if (only_plans) {
      step.discard();
      return result;
    }
    step.run();
    result.losses.push_back(loss.item());
    result.arena_bytes = step.plan().arena_bytes;
    for (const Tensor& tensor : kept) result.tensors.push_back(tensor.array());
  }
  CHECK(session.stats().plans == 1);
  for (Array& tensor : testing::tensors_of(session)) result.tensors.push_back(std::move(tensor));
  return result;
}

TEST_CASE("training under a memory limit gives the same bits as without") {
  const std::pair<std::string_view, DType> runs[] = {
      {"googlenet", DType::f32}, {"alexnet", DType::f32} /* dropout */, {"resnet20", DType::f16}};
  for (const auto& [name, dtype] : runs) {
    CAPTURE(name);
    CAPTURE(dtype);
    const LimitedTraining plain = train(name, dtype, 0);
    CHECK(plain.traded.empty());
    // Lower and lower, until nothing else is left to trade.
    std::int64_t thousandths = 995;
    const auto limit = [&] { return plain.arena_bytes * thousandths / 1000; };
    while (train(name, dtype, limit(), true).traded.find("recomputation: ") == std::string::npos) thousandths -= 5;
    const LimitedTraining limited = train(name, dtype, limit());
    CHECK(limited.arena_bytes <= limit());
    testing::check_equal(plain, limited);
  }
}

}  // namespace
}  // namespace braid
