// Several models in one session, and several training steps in one step graph.

#include <doctest/doctest.h>

#include <optional>

#include "models/zoo/chains/lenet.h"
#include "runtime/session.h"
#include "train/optimizer.h"

namespace braid {
namespace {

/// Trains lenet5 with dropout after it for some steps, `per_graph` of them recorded into one step graph; the weights.
std::vector<float> weights_after(int steps, int per_graph, const SessionOptions& options, int other_models = 0) {
  Session session(options);
  std::vector<std::unique_ptr<models::LeNet5>> others;
  RandomState other_random{99};
  for (int i = 0; i < other_models; ++i) {
    const Context::RandomScope scope(session, other_random);
    const Context::Scope name(session, message("other", i));
    others.push_back(std::make_unique<models::LeNet5>(session, models::LeNetOptions{.channels = 1, .image_size = 16}));
    session.next_layer();
  }
  RandomState random{5};
  std::optional<models::LeNet5> net;
  std::uint32_t layer = 0;
  {
    const Context::RandomScope scope(session, random);
    net.emplace(session, models::LeNetOptions{.channels = 1, .image_size = 16});
    layer = session.next_layer();
  }
  Array images(DType::f32, {4, 16, 16, 1}), labels(DType::i32, {4});
  Generator generator(3);
  for (float& pixel : images.as<float>()) pixel = generator.normal();
  SGD sgd(net->parameters(), {.lr = 0.05, .momentum = 0.9});
  for (int done = 0; done < steps;) {
    Step step = session.step();
    for (int i = 0; i < per_graph && done < steps; ++i, ++done) {
      const Context::RandomScope scope(session, random);
      for (const auto& other : others) (*other)(images);
      backward(cross_entropy(dropout((*net)(images), 0.3, layer), labels));
      sgd.step();
      ++random.step;
    }
    step.run();
  }
  std::vector<float> all;
  for (const Parameter* parameter : net->parameters()) {
    const Array values = session.read(*parameter);
    all.insert(all.end(), values.as<float>().begin(), values.as<float>().end());
  }
  return all;
}

TEST_CASE("several training steps in one graph change no bit, nor do other models in the session") {
  const SessionOptions serial{.device = "cpu", .streams = 1, .width = 1};
  const std::vector<float> expected = weights_after(6, 1, serial);
  CHECK(weights_after(6, 3, serial) == expected);
  CHECK(weights_after(6, 4, {.device = "cpu", .streams = 3, .width = 1}) == expected);
  CHECK(weights_after(6, 2, {.device = "cpu", .streams = 2, .width = 1}, 2) == expected);
  CHECK(weights_after(5, 1, serial) != expected);
}

TEST_CASE("a gradient belongs to one version of a parameter") {
  Session session({.device = "cpu", .streams = 1});
  Parameter& w = session.add("w", {DType::f32, {}}, ValueKind::parameter);
  SGD sgd({&w}, {.lr = 1});
  Step step = session.step();
  const Tensor early = Tensor(w) + Tensor(w);
  backward(Tensor(w));
  sgd.step();
  CHECK(session.tape().gradient(w) == kNoValue);
  CHECK_THROWS_WITH_AS(sgd.step(), "[optimizer] no parameter has a gradient in this step: call backward(loss) first",
                       Error);
  CHECK_THROWS_WITH_AS(backward(early),
                       "[backward] the loss was computed before 'w' was updated in this step: call backward() before "
                       "the update",
                       Error);
}

TEST_CASE("a model that ends releases its memory, and others continue") {
  Session session({.device = "cpu", .streams = 2});
  const Array images(DType::f32, {2, 16, 16, 1}), labels(DType::i32, {2});
  models::LeNet5 stays(session, {.channels = 1, .image_size = 16});
  const auto train = [&](models::LeNet5& net, SGD& sgd) {
    Step step = session.step();
    backward(cross_entropy(net(images), labels));
    sgd.step();
    step.run();
  };
  SGD stays_sgd(stays.parameters(), {.lr = 0.1, .momentum = 0.9});
  train(stays, stays_sgd);
  const std::size_t alone = session.stats().persistent_bytes;
  for (int i = 0; i < 3; ++i) {
    Parameter* gone = nullptr;
    {
      const Context::Scope name(session, "ends");
      models::LeNet5 ends(session, {.channels = 1, .image_size = 16});
      SGD sgd(ends.parameters(), {.lr = 0.1, .momentum = 0.9});
      train(ends, sgd);
      gone = ends.parameters()[0];
      CHECK(session.stats().persistent_bytes == 2 * alone);
    }
    train(stays, stays_sgd);
    CHECK(session.stats().persistent_bytes == alone);
    Step step = session.step();
    CHECK_THROWS_WITH_AS(Tensor{*gone}, "[tape] the parameter 'ends.conv1.weight' has been released: its model is gone",
                         Error);
  }
}

}  // namespace
}  // namespace braid
