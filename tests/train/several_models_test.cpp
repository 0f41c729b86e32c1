// Models that end while their session goes on.

#include <doctest/doctest.h>

#include "models/zoo/chains/lenet.h"
#include "runtime/session.h"
#include "train/optimizer.h"

namespace braid {
namespace {

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
