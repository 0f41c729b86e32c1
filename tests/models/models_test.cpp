#include <doctest/doctest.h>

#include <map>
#include <set>

#include "models/lenet.h"
#include "models/registry.h"
#include "models/resnet.h"
#include "runtime/session.h"

namespace braid {
namespace {

TEST_CASE("models have the parameter counts of their papers and of torchvision") {
  struct Row {
    const char* name;
    std::int64_t classes;
    Shape image;
    const char* stem;
    std::int64_t parameters;
  };
  // ImageNet form: torchvision. CIFAR form with 3 channels: 0.27 M … 1.7 M in He et al. 2016, section 4.2, with
  // projection shortcuts.
  const Row rows[] = {
      {"resnet18", 1000, {224, 224, 3}, "auto", 11689512},
      {"resnet34", 1000, {224, 224, 3}, "auto", 21797672},
      {"resnet50", 1000, {224, 224, 3}, "auto", 25557032},
      {"resnet101", 1000, {224, 224, 3}, "auto", 44549160},
      {"resnet152", 1000, {224, 224, 3}, "auto", 60192808},
      {"resnet18", 10, {32, 32, 3}, "auto", 11173962},
      {"resnext50_32x4d", 1000, {224, 224, 3}, "auto", 25028904},
      {"resnet20", 10, {32, 32, 3}, "auto", 272474},
      {"resnet32", 10, {32, 32, 3}, "auto", 466906},
      {"resnet44", 10, {32, 32, 3}, "auto", 661338},
      {"resnet56", 10, {32, 32, 3}, "auto", 855770},
      {"resnet110", 10, {32, 32, 3}, "auto", 1730714},
      {"lenet5", 10, {28, 28, 1}, "auto", 61706},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Context context(make_backend(Device{}), 1);
    const auto model =
        models::make_model(row.name, context, {.classes = row.classes, .image_shape = row.image, .stem = row.stem});
    CHECK(model->parameter_count() == row.parameters);
  }
}

TEST_CASE("every model of the registry maps images to logits, in training and in evaluation") {
  for (const std::string& name : models::model_names()) {
    CAPTURE(name);
    Session session({.device = "cpu", .streams = 1});
    const auto model = models::make_model(name, session, {.classes = 7, .image_shape = {32, 32, 3}});
    for (const bool training : {true, false}) {
      model->train(training);
      Step step = session.step();
      const Tensor logits = (*model)(Array(DType::f32, {2, 32, 32, 3}));
      CHECK(logits.shape() == Shape{2, 7});
    }
  }
}

TEST_CASE("the tape knows which layer recorded a node, also in the backward pass") {
  Session session({.device = "cpu", .streams = 1});
  models::ResNet model(session, 20, {});
  Step step = session.step();
  backward(cross_entropy(model(Array(DType::f32, {2, 8, 8, 3})), Array(DType::i32, {2})));
  const Tape& tape = session.tape();
  std::map<std::string, std::vector<std::string>> ops;
  for (NodeId id = 0; id < tape.graph().node_count(); ++id) {
    ops[std::string(tape.layer(id))].emplace_back(tape.graph().node(id).op->name());
  }
  CHECK(ops["conv1"] == std::vector<std::string>{"conv2d", "conv2d_backward_filter"});
  CHECK(ops["layer2.0.conv1"] == std::vector<std::string>{"conv2d", "conv2d_backward_data", "conv2d_backward_filter"});
  CHECK(ops["layer1.0.bn1"] == std::vector<std::string>{"batch_norm", "batch_norm_backward"});
  CHECK(ops["fc"].front() == "linear");
  CHECK(ops[""].front() == "global_avg_pool");
}

TEST_CASE("names of parameters are unique and follow the model's structure") {
  Context context(make_backend(Device{}), 1);
  const models::ResNet model(context, 18, {});
  std::set<std::string> names;
  for (const Parameter* parameter : model.parameters()) names.insert(parameter->name());
  CHECK(names.size() == model.parameters().size());
  for (const char* name : {"conv1.weight", "bn1.bias", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight",
                           "layer4.1.bn2.weight", "fc.weight", "fc.bias"}) {
    CHECK(names.contains(name));
  }
}

TEST_CASE("with zero_init_residual a block starts as its shortcut") {
  Context context(make_backend(Device{}), 1);
  const models::ResNet model(context, 18, {.zero_init_residual = true});
  for (const Parameter* parameter : model.parameters()) {
    if (!parameter->name().ends_with("bn2.weight")) continue;
    const Array values = context.read(*parameter);
    for (const float v : values.as<float>()) CHECK(v == 0);
  }
}

TEST_CASE("He initialisation has the variance it should have") {
  Context context(make_backend(Device{}), 3);
  Parameter& weight = context.add("w", {DType::f32, {64, 3, 3, 64}}, ValueKind::parameter);
  he_normal(context, weight, 64 * 9);
  const Array values = context.read(weight);
  double sum = 0, squares = 0;
  for (const float v : values.as<float>()) {
    sum += static_cast<double>(v);
    squares += static_cast<double>(v) * static_cast<double>(v);
  }
  const double n = static_cast<double>(values.size());
  CHECK(std::abs(sum / n) < 1e-3);
  CHECK(squares / n == doctest::Approx(2.0 / (64 * 9)).epsilon(0.02));
}

TEST_CASE("the loss of several heads is their weighted sum, that of one head is its cross entropy") {
  Session session({.device = "cpu", .streams = 1});
  Array a(DType::f32, {2, 3}), b(DType::f32, {2, 3}), labels(DType::i32, {2});
  for (int i = 0; i < 6; ++i) {
    a.as<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
    b.as<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i * i % 5);
  }
  labels.as<std::int32_t>()[1] = 2;
  Step step = session.step();
  const std::vector<Head> one{{a}}, two{{a}, {b, 0.5}};
  const Tensor single = training_loss(one, labels);
  CHECK(session.tape().graph().node_count() == 1);
  const Tensor both = training_loss(two, labels, 0.1);
  const Tensor first = cross_entropy(a, labels, 0.1), second = cross_entropy(b, labels, 0.1);
  const Tensor plain = cross_entropy(a, labels);
  step.run();
  CHECK(single.item() == plain.item());
  CHECK(both.item() == doctest::Approx(first.item() + 0.5 * second.item()).epsilon(1e-6));
  CHECK_THROWS_AS(training_loss({}, labels), Error);
}

TEST_CASE("the width multiplies the channels of all layers, never the classes") {
  Context context(make_backend(Device{}), 1);
  const auto model = models::make_model("resnet18", context, {.classes = 7, .width = 0.25});
  std::map<std::string, Shape> shapes;
  for (const Parameter* parameter : model->parameters()) shapes[parameter->name()] = parameter->shape();
  CHECK(shapes["conv1.weight"] == Shape{16, 3, 3, 3});
  CHECK(shapes["layer4.1.conv2.weight"] == Shape{128, 3, 3, 128});
  CHECK(shapes["fc.weight"] == Shape{7, 128});
  CHECK(models::scaled(3, 0.01) == 1);
  CHECK(models::scaled(10, 0.25) == 3);
  CHECK_THROWS_AS(models::scaled(10, 0), Error);
}

TEST_CASE("the registry knows which options a model has") {
  using Names = std::vector<std::string>;
  CHECK(models::model_option_names("lenet5") == Names{"width"});
  CHECK(models::model_option_names("resnet20") == Names{"zero_init_residual", "width"});
  CHECK(models::model_option_names("resnet50") == Names{"zero_init_residual", "stem", "width"});
  CHECK_THROWS_AS(models::model_option_names("resnet21"), Error);
}

TEST_CASE("unknown models and wrong options are refused with the list of what there is") {
  Context context(make_backend(Device{}), 1);
  CHECK_THROWS_WITH_AS(models::make_model("resnet21", context, {}),
                       doctest::Contains("there is no model 'resnet21'; there are lenet5, resnet18"), Error);
  CHECK_THROWS_AS(models::ResNet(context, 21, {}), Error);
  CHECK_THROWS_AS(models::make_model("resnet18", context, {.stem = "tiny"}), Error);
  CHECK_THROWS_AS(models::make_model("lenet5", context, {.image_shape = {28, 32, 1}}), Error);
  CHECK_THROWS_AS(models::make_model("lenet5", context, {.image_shape = {8, 8, 1}}), Error);
}

}  // namespace
}  // namespace braid
