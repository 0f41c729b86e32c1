#include "models/inference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "models/layers/layers.h"
#include "runtime/session.h"
#include "tests/models/small_model.h"
#include "train/optimizer.h"

using namespace braid;

namespace {

const SessionOptions kOneStream{.device = "cpu", .streams = 1};

/// Training steps, after which every batch norm has changed.
void train_a_little(Session& session, Module& model, const Shape& images) {
  SGD sgd(model.parameters(), {.lr = 1e-3, .momentum = 0});
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    Step step = session.step();
    const std::vector<Head> heads = model.heads(noise(images, seed));
    backward(training_loss(heads, labels_of(heads[0].logits)));
    sgd.step();
    step.run();
  }
}

struct Result {
  Array logits;
  std::int64_t nodes;
};

Result plain(Session& session, Module& model, const Array& images) {
  const ModuleMode evaluation(model, false);
  Step step = session.step();
  const NoGrad no_grad;
  const Tensor logits = model(images);
  step.run();
  return {logits.array(), session.tape().graph().node_count()};
}

Result prepared(Session& session, Inference& inference, const Array& images, DType dtype = DType::f32) {
  Step step = session.step();
  const NoGrad no_grad;
  const Tensor logits = inference(images, dtype);
  step.run();
  return {logits.array(), session.tape().graph().node_count()};
}

/// Batch norms without addition after a convolution that nothing else reads, which could have been folded.
std::int64_t norms_after_convolutions(const StepGraph& graph) {
  std::map<ValueId, int> readers;
  std::vector<ValueId> normalised;
  for (const Node& node : graph.nodes()) {
    for (const ValueId input : graph.inputs(node)) ++readers[input];
    const auto* norm = dynamic_cast<const ops::BatchNormInference*>(node.op.get());
    if (norm != nullptr && !norm->attributes().add) normalised.push_back(graph.inputs(node)[0]);
  }
  return std::ranges::count_if(normalised, [&](ValueId x) {
    const NodeId producer = graph.value(x).producer;
    return producer != kNoNode && graph.node(producer).op->name() == "conv2d" && readers[x] == 1;
  });
}

double to_double(const Array& array, std::size_t i) {
  return static_cast<double>(array.dtype() == DType::bf16 ? static_cast<float>(array.as<BFloat16>()[i])
                                                          : array.as<float>()[i]);
}

/// The largest difference relative to the largest element.
double relative_difference(const Array& found, const Array& expected) {
  double difference = 0, most = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(expected.size()); ++i) {
    difference = std::max(difference, std::abs(to_double(found, i) - to_double(expected, i)));
    most = std::max(most, std::abs(to_double(expected, i)));
  }
  return difference / most;
}

bool same_bits(const Array& a, const Array& b) { return std::ranges::equal(a.as<float>(), b.as<float>()); }

}  // namespace

TEST_CASE("every network gives the same logits once prepared, without the batch norms that follow a convolution") {
  const Shape image{32, 32, 3}, images{3, 32, 32, 3};
  for (const std::string& name : some_models()) {
    CAPTURE(name);
    Session session(kOneStream);
    const auto model = models::make_model(name, session, small_model(image));
    train_a_little(session, *model, images);
    Inference inference(*model);
    const Array pixels = noise(images, 7);
    const Result expected = plain(session, *model, pixels), found = prepared(session, inference, pixels);
    CHECK(relative_difference(found.logits, expected.logits) < 1e-5);
    const auto is_norm = [](const Parameter* tensor) { return tensor->name().ends_with("running_var"); };
    const bool has_norms = std::ranges::any_of(model->states(), is_norm);
    CHECK((found.nodes < expected.nodes) == has_norms);
    CHECK(norms_after_convolutions(session.tape().graph()) == 0);
    CHECK(model->training());
  }
}

TEST_CASE("a filter that is kept in another layout follows its parameter, also one of a transposed convolution") {
  for (const auto& [side, taps] : {std::pair(4, 2), {20, 1}}) {  // few pixels, and many
    CAPTURE(side);
    const Array pixels = noise({1, side, side, 16}, 1);
    const ValueDesc desc{DType::f32, {16, taps, taps, 16}};
    Session session(kOneStream);
    Parameter& parameter = session.add("w", desc, ValueKind::parameter);
    for (const std::uint64_t seed : {2, 3, 3, 4}) {
      const Array filter = noise(desc.shape, seed);
      session.write(parameter, filter);
      Step step = session.step();
      const NoGrad no_grad;
      const Tensor x = place(pixels, Layout::replicated), kept(parameter), given = place(filter, Layout::replicated);
      const Tensor results[] = {conv2d(x, kept), conv2d(x, given), conv_transpose2d(x, kept),
                                conv_transpose2d(x, given)};
      for (const Tensor& y : results) y.keep();
      step.run();
      for (const std::size_t i : {0u, 2u}) {
        const Array a = results[i].array(), b = results[i + 1].array();
        CHECK(std::ranges::equal(a.as<float>(), b.as<float>()));
      }
    }
  }
}

TEST_CASE("a prepared network follows its parameters when refreshed, with the plan that it had") {
  const Shape image{32, 32, 3}, images{2, 32, 32, 3};
  Session session(kOneStream);
  const auto model = models::make_model("resnet20", session, small_model(image));
  Inference inference(*model);
  const Array pixels = noise(images, 7);
  const Array before = prepared(session, inference, pixels).logits;
  train_a_little(session, *model, images);
  const std::int64_t plans = session.stats().plans;
  inference.refresh();
  const Array after = prepared(session, inference, pixels).logits;
  CHECK(session.stats().plans == plans);
  CHECK(!same_bits(after, before));
  CHECK(relative_difference(after, plain(session, *model, pixels).logits) < 1e-5);
}

TEST_CASE("filters that kernels keep in another layout follow every change of a parameter, and change no bit") {
  // Without batch norms: the network's own filters are read, by Winograd's algorithm, by oneDNN, and packed.
  const Shape images{2, 32, 32, 16};
  const auto build = [](Session& session) {
    auto model = std::make_unique<Sequential>(session);
    model->append<ConvLayer>(16, 64, 3, Conv2dOptions{.padding = 1});
    model->append<ConvLayer>(64, 300, 1);
    model->append<ConvLayer>(300, 40, 3, Conv2dOptions{.stride = 4, .padding = 1});
    return model;
  };
  Session session(kOneStream);
  const auto model = build(session);
  const auto forward = [&](Session& in, Module& net) {
    Step step = in.step();
    const NoGrad no_grad;
    const Tensor y = net(noise(images, 7));
    step.run();
    return y.array();
  };
  const auto fresh = [&] {
    Session other(kOneStream);
    const auto same = build(other);
    for (std::size_t i = 0; i < model->parameters().size(); ++i) {
      other.write(*same->parameters()[i], session.read(*model->parameters()[i]));
    }
    return forward(other, *same);
  };
  Array before = forward(session, *model);
  CHECK(same_bits(forward(session, *model), before));
  const auto check_changed = [&] {
    const Array after = forward(session, *model);
    CHECK_FALSE(same_bits(after, before));
    CHECK(same_bits(after, fresh()));
    CHECK(same_bits(forward(session, *model), after));
    before = after;
  };
  SUBCASE("by the host") {
    for (Parameter* parameter : model->parameters()) {
      Array doubled = session.read(*parameter);
      for (float& element : doubled.as<float>()) element *= 2;
      session.write(*parameter, doubled);
      if (parameter->shape().rank() == 4) check_changed();
    }
  }
  SUBCASE("by a step") {
    SGD sgd(model->parameters(), {.lr = 1e-2});
    {
      Step step = session.step();
      const Tensor y = (*model)(noise(images, 7));
      y.keep();
      backward(cross_entropy(flatten(y), labels(images[0])));
      sgd.step();
      step.run();
      CHECK(same_bits(y.array(), before));  // a step with updates keeps no filter
    }
    check_changed();
  }
}

TEST_CASE("a network computed in bf16 is folded in f32 and rounded once") {
  const Shape image{32, 32, 3}, images{2, 32, 32, 3};
  Session session(kOneStream);
  const auto model = models::make_model("resnet20", session, small_model(image));
  train_a_little(session, *model, images);
  Inference inference(*model);
  const Array pixels = noise(images, 7);
  const Array expected = plain(session, *model, pixels).logits;
  CHECK(relative_difference(prepared(session, inference, pixels, DType::bf16).logits, expected) < 0.05);
}

TEST_CASE("the tensors of a prepared network are released with it") {
  Session session(kOneStream);
  const auto model = models::make_model("resnet20", session, small_model({32, 32, 3}));
  const auto released = [&] { return std::ranges::count_if(session.parameters(), &Parameter::released); };
  {
    Inference inference(*model);
    prepared(session, inference, noise({1, 32, 32, 3}));
    CHECK(released() == 0);
  }
  CHECK(released() == 2 * 12);  // first convolutions of nine blocks, the stem, and two shortcuts
}
