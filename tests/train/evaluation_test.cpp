#include "train/run/job/evaluation.h"

#include <doctest/doctest.h>

#include "data/synthetic.h"
#include "models/zoo/chains/lenet.h"

using namespace braid;

TEST_CASE("evaluation finds the plan that was made ahead, and gives the same result as without it") {
  const auto dataset = synthetic({.size = 32, .split = Split::val});
  Evaluation results[2];
  for (const bool ahead : {false, true}) {
    Session session({.device = "cpu", .streams = 1});
    models::LeNet5 model(session, {.channels = 3, .image_size = 32});
    Inference inference(model);
    if (ahead) plan_evaluation(session, inference, *dataset, 16, DType::f32);
    CHECK(model.training());
    CHECK(session.stats().plans == (ahead ? 1 : 0));
    CHECK(session.stats().steps == 0);
    Loader loader(dataset, {.batch_size = 16});
    results[ahead] = evaluate(session, inference, loader);
    CHECK(session.stats().plans == 1);
    CHECK(session.stats().steps == 2);
  }
  CHECK(results[0].samples == 32);
  CHECK(results[0].loss == results[1].loss);
  CHECK(results[0].top1 == results[1].top1);
}
