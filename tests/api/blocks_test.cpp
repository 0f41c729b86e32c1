// Checkpointed blocks, and parameters that a program updates itself.

#include <doctest/doctest.h>

#include "braid/braid.h"
#include "tests/noise.h"

namespace braid {

namespace {

struct Trained {
  std::vector<float> weights;
  std::int64_t arena_bytes = 0;
  int nodes = 0, recorded = 0;
};

/// Three steps of a chain of convolutions with dropout, whose middle consists of checkpointed blocks or not.
Trained train(bool checkpointed, int streams) {
  Session session({.device = "cpu", .streams = streams});
  struct Net final : Module {
    explicit Net(Context& context) : Module(context) {
      stem = &add<ConvNormLayer>("stem", 3, 8, 3, {.padding = 1});
      for (int i = 0; i < 8; ++i) {
        middle.push_back(&add<ConvNormLayer>(std::to_string(i), 8, 8, 3, {.padding = 1}));
      }
      drop = &add<DropoutLayer>("drop", 0.3);
      head = &add<LinearLayer>("head", 8, 4);
    }
    Tensor forward(const Tensor& x) override {
      Tensor y = (*stem)(x);
      for (std::size_t i = 0; i < middle.size(); i += 2) {
        const auto block = [&](const Tensor& z) { return (*drop)((*middle[i + 1])((*middle[i])(z))); };
        y = with_checkpoint ? checkpoint(block, y) : block(y);
      }
      return (*head)(global_avg_pool(y));
    }
    bool with_checkpoint = false;
    ConvNormLayer* stem;
    std::vector<ConvNormLayer*> middle;
    DropoutLayer* drop;
    LinearLayer* head;
  };
  Net& net = session.add<Net>("net");
  net.with_checkpoint = checkpointed;
  SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  const Array images = noise({4, 16, 16, 3}, 3), labels = Array::from<std::int32_t>({0, 1, 2, 3}, {4});
  Trained trained;
  for (int i = 0; i < 3; ++i) {
    Step step = session.step();
    backward(cross_entropy(net(images), labels));
    sgd.step();
    step.run();
    trained.arena_bytes = step.plan().arena_bytes;
    trained.nodes = step.graph().node_count();
    trained.recorded = session.tape().graph().node_count();
  }
  for (const Parameter* tensor : net.tensors()) {
    const Array array = session.read(*tensor);
    trained.weights.insert(trained.weights.end(), array.as<float>().begin(), array.as<float>().end());
  }
  return trained;
}

}  // namespace

TEST_CASE("a checkpointed block takes less memory and gives the same bits") {
  for (const int streams : {1, 2}) {
    CAPTURE(streams);
    const Trained plain = train(false, streams), checkpointed = train(true, streams);
    CHECK(plain.nodes == plain.recorded);
    CHECK(checkpointed.recorded == plain.recorded);
    CHECK(checkpointed.nodes > checkpointed.recorded);
    CHECK(checkpointed.arena_bytes < plain.arena_bytes);
    CHECK(checkpointed.weights == plain.weights);
  }
}

TEST_CASE("a parameter can be assigned to in every step") {
  Session session({.device = "cpu", .streams = 2});
  Parameter& w = session.add("w", {DType::f32, {1, 2}}, ValueKind::parameter);
  session.write(w, Array::from<float>({3, -4}, {1, 2}));
  for (int i = 0; i < 3; ++i) {
    Step step = session.step();
    const Tensor before = w;
    backward(linear(Array::from<float>({1, 2}, {1, 2}), before));
    assign(w, before + -0.5 * gradient(w));
    CHECK_FALSE(has_gradient(w));
    step.run();
  }
  const Array after = session.read(w);
  CHECK(after.as<float>()[0] == 1.5f);
  CHECK(after.as<float>()[1] == -7);
}

TEST_CASE("assigning another shape changes nothing") {
  Session session({.device = "cpu"});
  Parameter& w = session.add("w", {DType::f32, {2}}, ValueKind::parameter);
  Step step = session.step();
  const Tensor x = Array::from<float>({1}, {1});
  const Hash before = session.tape().graph().hash();
  CHECK_THROWS_WITH_AS(assign(w, x), "[assign] 'w' is f32 [2], got f32 [1]", ShapeError);
  CHECK(session.tape().graph().hash() == before);
}

TEST_CASE("a frozen batch norm follows its own switch") {
  for (const bool keep : {false, true}) {
    Session session({.device = "cpu"});
    BatchNormLayer& norm = session.add<BatchNormLayer>("norm", 2);
    for (Parameter* parameter : norm.parameters()) parameter->trainable = false;
    norm.keep_statistics(keep);
    Step step = session.step();
    norm(Array::from<float>({1, 2, 3, 4}, {2, 2}));
    step.run();
    const Array mean = session.read(*norm.states()[0]);
    CHECK(mean.as<float>()[0] == (keep ? 0 : 0.2f));
    CHECK(mean.as<float>()[1] == (keep ? 0 : 0.3f));
  }
}

}  // namespace braid
