#pragma once
// A training step whose samples are split over ranks, recorded and not divided yet.

#include <memory>

#include "autograd/functions.h"
#include "core/base/random.h"
#include "core/comm/local/local_ranks.h"
#include "models/zoo/chains/mlp.h"
#include "runtime/session.h"
#include "train/optimizer.h"

namespace braid {

constexpr int kPerceptronRanks = 4;

/// A training step of a perceptron with layers of random widths: two gradients for each.
inline StepGraph random_perceptron(int layers, Generator& random) {
  const auto ranks = std::make_shared<LocalRanks>(kPerceptronRanks);
  Session session({.device = "cpu", .threads = 1, .parallel = {.communicator = {ranks, &ranks->of(0)}}});
  const auto width = [&] { return 16 + static_cast<std::int64_t>(random.below(500)); };
  models::MlpOptions options{.classes = width(), .inputs = width(), .hidden = {}};
  for (int i = 1; i < layers; ++i) options.hidden.push_back(width());
  models::Mlp network(session, options);
  SGD sgd(network.parameters(), {.lr = 0.1, .momentum = 0.9});
  const Array images(DType::f32, {64, options.inputs});
  Step step = session.step();
  backward(sum(network(place(images, Layout::split))));
  sgd.step();
  StepGraph graph = session.tape().graph();
  step.discard();
  return graph;
}

}  // namespace braid
