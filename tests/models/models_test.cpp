// What holds for every model of the registry, and for modules in general.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "models/registry.h"
#include "models/zoo/blocks/resnet.h"
#include "ops/conv/conv2d.h"
#include "ops/elementwise/cpu/normal.h"
#include "runtime/session.h"
#include "tests/models/small_model.h"

namespace braid {
namespace {

using namespace testing;

std::int64_t parameters_of(const std::string& name, const models::ModelOptions& options) {
  Context context(make_backend(Device{}), 1, {}, false);
  return models::make_model(name, context, options)->parameter_count();
}

TEST_CASE("deeper models, and auxiliary classifiers, have the parameter counts of their papers and of torchvision") {
  // scripts/check_docs.py compares the counts in docs/models.md.
  struct Row {
    const char* name;
    std::int64_t classes, side, parameters;
  };
  // ImageNet form: torchvision. CIFAR form: 0.27 M … 1.7 M in He et al. 2016, section 4.2, with projection shortcuts.
  const Row rows[] = {
      {"resnet34", 1000, 224, 21797672}, {"resnet101", 1000, 224, 44549160}, {"resnet152", 1000, 224, 60192808},
      {"vgg19", 1000, 224, 143667240},   {"resnet18", 10, 32, 11173962},     {"resnet20", 10, 32, 272474},
      {"resnet32", 10, 32, 466906},      {"resnet44", 10, 32, 661338},       {"resnet56", 10, 32, 855770},
      {"resnet110", 10, 32, 1730714},    {"googlenet", 1000, 224, 13004888}, {"inception_v3", 1000, 299, 27161264},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Shape image{row.side, row.side, 3};
    CHECK(parameters_of(row.name, {.classes = row.classes, .image_shape = image, .auxiliary = true}) == row.parameters);
  }
}

TEST_CASE("a model whose weights are not drawn records the same step") {
  Hash steps[2];
  for (const bool draws : {false, true}) {
    CAPTURE(draws);
    Session session({.device = "cpu", .streams = 1, .draw_weights = draws});
    const auto model = models::make_model("resnet20", session, small_model({20, 20, 3}));
    Step step = session.step();
    record_gradients("resnet20", *model, noise({4, 20, 20, 3}));
    steps[draws] = session.tape().graph().hash();
    step.discard();
    const Array weights = session.read(*model->parameters()[0]);
    const bool zero = std::ranges::all_of(weights.as<float>(), [](float weight) { return weight == 0; });
    CHECK(zero != draws);
  }
  CHECK(steps[0] == steps[1]);
}

TEST_CASE("parameters have the names of torchvision") {
  // A weight, its shape with the channels last, and a running statistic of each. Golden files have all names of others.
  struct Row {
    const char* model;
    const char* weight;
    Shape shape;
    const char* state;
  };
  const Row rows[] = {
      {"resnext50_32x4d", "layer1.0.conv2.weight", {32, 3, 3, 1}, "layer1.0.bn3.running_var"},
      {"squeezenet1_1", "features.3.squeeze.weight", {2, 1, 1, 8}, ""},
      {"squeezenet1_1", "classifier.1.bias", {7}, ""},
      {"vgg16", "features.28.weight", {64, 3, 3, 64}, ""},
      {"vgg16", "classifier.6.weight", {7, 64}, ""},
      {"vgg16_bn", "features.40.weight", {64, 3, 3, 64}, "features.41.running_var"},
      {"vgg19", "features.34.weight", {64, 3, 3, 64}, ""},
      {"vgg19_bn", "features.49.weight", {64, 3, 3, 64}, "features.50.running_var"},
      {"alexnet", "features.10.weight", {32, 3, 3, 32}, ""},
      {"alexnet", "classifier.1.weight", {128, 128}, ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.model);
    CAPTURE(row.weight);
    Context context(make_backend(Device{}), 1);
    const auto model = models::make_model(row.model, context, {.classes = 7, .width = 0.125, .auxiliary = true});
    std::map<std::string, Shape> shapes;
    for (const Parameter* parameter : context.parameters()) {
      CHECK(shapes.emplace(parameter->name(), parameter->shape()).second);  // names are unique
    }
    REQUIRE(shapes.contains(row.weight));
    CHECK(shapes[row.weight] == row.shape);
    if (row.state[0] != '\0') CHECK(shapes.contains(row.state));
  }
}

TEST_CASE("every model of the registry maps images to logits, or pixels, in training and in evaluation") {
  for (const std::string& name : kOnce ? distinct_models() : models::model_names()) {
    CAPTURE(name);
    for (const Shape& image : {Shape{28, 28, 1}, Shape{32, 32, 3}}) {
      if (kOnce && image[2] == 1) continue;
      Session session({.device = "cpu", .streams = 1});
      const auto model = models::make_model(name, session, small_model(image));
      for (const bool training : {true, false}) {
        model->train(training);
        Step step = session.step();
        const Tensor logits = (*model)(Array(DType::f32, {2, image[0], image[1], image[2]}));
        CHECK(logits.shape() == logits_shape(name, {2, image[0], image[1], image[2]}));
      }
    }
  }
}

TEST_CASE("every model of the registry that has a form for large images takes them") {
  for (const std::string& name : distinct_models()) {
    CAPTURE(name);
    const std::vector<std::string> options = models::model_option_names(name);
    if (std::find(options.begin(), options.end(), "stem") == options.end()) continue;
    const std::int64_t side = name == "inception_v3" ? 299 : 224;
    Session session({.device = "cpu", .streams = 1});
    const auto model = models::make_model(name, session, small_model({side, side, 3}));
    Step step = session.step();
    for (const Head& head : model->heads(Array(DType::f32, {2, side, side, 3}))) {
      CHECK(head.logits.shape() == Shape{2, 7});
    }
  }
}

TEST_CASE("auxiliary classifiers count in training alone, and forward leaves them out") {
  struct Row {
    const char* name;
    std::vector<double> weights;
  };
  for (const Row& row : {Row{"googlenet", {1, 0.3, 0.3}}, Row{"inception_v3", {1, 0.4}}}) {
    CAPTURE(row.name);
    for (const bool auxiliary : {true, false}) {
      Session session({.device = "cpu", .streams = 1});
      models::ModelOptions options = small_model({16, 16, 3});
      options.auxiliary = auxiliary;
      const auto model = models::make_model(row.name, session, options);
      const auto weights = [&] {
        std::vector<double> list;
        for (const Head& head : model->heads(Array(DType::f32, {2, 16, 16, 3}))) list.push_back(head.weight);
        return list;
      };
      Step step = session.step();
      CHECK(weights() == (auxiliary ? row.weights : std::vector<double>{1}));
      const Tape& tape = session.tape();
      const NodeId before = tape.graph().node_count();
      (*model)(Array(DType::f32, {2, 16, 16, 3}));
      for (NodeId id = before; id < tape.graph().node_count(); ++id) {
        CHECK_FALSE(std::string(tape.layer(id)).starts_with("aux"));
        CHECK_FALSE(std::string(tape.layer(id)).starts_with("Aux"));
      }
      model->eval();
      CHECK(weights() == std::vector<double>{1});
    }
  }
}

TEST_CASE("images that are too small, or have other channels, are refused with the model's requirements") {
  struct Row {
    const char* name;
    const char* stem;
    std::int64_t smallest;
  };
  const Row rows[] = {
      {"googlenet", "small_image", 8},     {"googlenet", "image", 31},
      {"inception_v3", "small_image", 7},  {"inception_v3", "image", 75},
      {"squeezenet1_0", "small_image", 6}, {"squeezenet1_0", "image", 29},
      {"squeezenet1_1", "small_image", 6}, {"squeezenet1_1", "image", 25},
      {"alexnet", "small_image", 15},      {"alexnet", "image", 63},
      {"vgg16", "small_image", 17},        {"vgg16_bn", "image", 32},
      {"nasnet_a_mobile", "image", 3},     {"densenet121", "small_image", 8},
      {"densenet121", "image", 29},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.stem);
    Session session({.device = "cpu", .streams = 1});
    models::ModelOptions options = small_model({32, 32, 3});
    options.stem = row.stem;
    const auto model = models::make_model(row.name, session, options);
    const auto forward = [&](std::int64_t side, std::int64_t channels) {
      return model->heads(Array(DType::f32, {2, side, side, channels})).size();
    };
    Step step = session.step();
    CHECK(forward(row.smallest, 3) >= 1);
    const std::string size = message('[', row.name, "] expected images of at least ", row.smallest, 'x', row.smallest);
    CHECK_THROWS_WITH_AS(forward(row.smallest - 1, 3), doctest::Contains(size.c_str()), ShapeError);
    const std::string channels = message('[', row.name, "] expected images [N,H,W,3]");
    CHECK_THROWS_WITH_AS(forward(64, 1), doctest::Contains(channels.c_str()), ShapeError);
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

TEST_CASE("a ReLU after a convolution with bias is part of its node") {
  for (const char* name : {"vgg16", "alexnet", "squeezenet1_0", "squeezenet1_1", "lenet5"}) {
    CAPTURE(name);
    Session session({.device = "cpu", .streams = 1});
    const auto model = models::make_model(name, session, {.classes = 10, .image_shape = {32, 32, 3}, .width = 0.125});
    const Step step = session.step();
    model->heads(Array(DType::f32, {1, 32, 32, 3}));
    const StepGraph& graph = session.tape().graph();
    int activated = 0;
    for (NodeId id = 0; id < graph.node_count(); ++id) {
      const Op& op = *graph.node(id).op;
      const auto* conv = dynamic_cast<const ops::Conv2d*>(&op);
      activated += conv != nullptr && conv->attributes().activation == Activation::relu;
      if (op.name() != "relu") continue;
      const Op& before = *graph.node(graph.value(graph.inputs(id).front()).producer).op;
      CHECK(before.name() == "linear");
    }
    CHECK(activated >= 2);
  }
}

TEST_CASE("layers of a sequence are numbered, may be added later, and may leave numbers out") {
  struct Network final : Module {
    explicit Network(Context& context) : Module(context), layers(add<Sequential>("layers")) {
      layers.append<LinearLayer>(4, 3);
      layers.append<ReluLayer>();
    }
    Tensor forward(const Tensor& x) override { return layers(x); }
    Sequential& layers;
  };
  Context context(make_backend(Device{}), 1);
  Network network(context);
  network.layers.skip();
  network.layers.append<LinearLayer>(3, 2);
  std::vector<std::string> names;
  for (const Parameter* parameter : context.parameters()) names.push_back(parameter->name());
  CHECK(names == std::vector<std::string>{"layers.0.weight", "layers.0.bias", "layers.3.weight", "layers.3.bias"});
  const Context::Scope elsewhere(context, "other");
  CHECK_THROWS_AS(network.layers.append<ReluLayer>(), Error);
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

TEST_CASE("each initialisation has the variance it should have, and only PyTorch's touches the bias") {
  struct Row {
    Init init;
    double variance;
  };
  const double fan_in = 25.0 * 16, fan_out = 25.0 * 64;  // 5x5, 32 → 128 channels, 2 groups
  const Row rows[] = {{Init::he_fan_out, 2 / fan_out},
                      {Init::he_fan_in, 2 / fan_in},
                      {Init::he_uniform, 2 / fan_in},
                      {Init::uniform, 1 / (3 * fan_in)},
                      {Init::normal, 1e-4}};
  for (const Row& row : rows) {
    CAPTURE(static_cast<int>(row.init));
    Context context(make_backend(Device{}), 3);
    ConvLayer layer(context, 32, 128, 5, Conv2dOptions{.groups = 2}, Bias::yes, row.init);
    const Array weights = context.read(*layer.parameters()[0]);
    double sum = 0, squares = 0;
    for (const float v : weights.as<float>()) {
      sum += static_cast<double>(v);
      squares += static_cast<double>(v) * static_cast<double>(v);
    }
    const double n = static_cast<double>(weights.size());
    CHECK(std::abs(sum / n) < 4 * std::sqrt(row.variance / n));
    CHECK(squares / n == doctest::Approx(row.variance).epsilon(0.025));  // 51200 draws: 4 deviations are 0.025
    const Array bias = context.read(*layer.parameters()[1]);
    for (const float v : bias.as<float>()) CHECK((v != 0) == (row.init == Init::uniform));
  }
}

TEST_CASE("the elements of a tensor are the consecutive draws of its generator, however many threads draw them") {
  Context context(make_backend(Device{}), 3);
  const LinearLayer layer(context, 301, 201, Init::normal);
  const Parameter& weight = *layer.parameters()[0];
  const Array values = context.read(weight);
  std::vector<float> drawn(static_cast<std::size_t>(values.size()));
  cpu::draw_normal(context.generator(weight.name()), 0, drawn);
  int others = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) others += values.as<float>()[i] != 0.01f * drawn[i];
  CHECK(others == 0);
}

TEST_CASE("the loss of several heads is their weighted sum, that of one head is its cross entropy") {
  Session session({.device = "cpu", .streams = 1});
  const Array a = noise({2, 7}), b = noise({2, 7}, 2), truth = labels(2);
  Step step = session.step();
  const std::vector<Head> one{{a}}, two{{a}, {b, 0.5}};
  const Tensor single = training_loss(one, truth);
  CHECK(session.tape().graph().node_count() == 1);
  const Tensor both = training_loss(two, truth, {.label_smoothing = 0.1});
  const Tensor first = cross_entropy(a, truth, 0.1), second = cross_entropy(b, truth, 0.1);
  const Tensor plain = cross_entropy(a, truth);
  step.run();
  CHECK(single.item() == plain.item());
  CHECK(both.item() == doctest::Approx(first.item() + 0.5 * second.item()).epsilon(1e-6));
  CHECK_THROWS_AS(training_loss({}, truth), Error);
}

TEST_CASE("focal and binary cross entropy are what their formulas say, of labels and of probabilities") {
  Session session({.device = "cpu", .streams = 1});
  const Array logits = Array::from<float>({0.5f, -1, 2, 1, 0, -0.5f}, {2, 3}),
              truth = Array::from<std::int32_t>({2, 1}, {2});
  const Array given = Array::from<float>({0, 0, 1, 0, 1, 0}, {2, 3});
  Step step = session.step();
  const auto of = [&](ClassLoss::Kind kind, const Array& target) {
    return ClassLoss{.kind = kind, .label_smoothing = 0.3, .gamma = 1.5}(logits, target);
  };
  const Tensor losses[] = {of(ClassLoss::Kind::focal, truth), of(ClassLoss::Kind::focal, given),
                           of(ClassLoss::Kind::binary_cross_entropy, truth),
                           of(ClassLoss::Kind::binary_cross_entropy, given)};
  step.run();
  double focal = 0, binary = 0;
  for (std::size_t row = 0; row < 2; ++row) {
    double total = 0;
    const auto logit = [&](std::size_t c) { return static_cast<double>(logits.as<float>()[3 * row + c]); };
    for (std::size_t c = 0; c < 3; ++c) total += std::exp(logit(c));
    for (std::size_t c = 0; c < 3; ++c) {
      const double target = 0.7 * static_cast<double>(given.as<float>()[3 * row + c]) + 0.1;
      const double p = std::exp(logit(c)) / total, sigmoid = 1 / (1 + std::exp(-logit(c)));
      focal -= target * std::pow(1 - p, 1.5) * std::log(p) / 2;
      binary -= (target * std::log(sigmoid) + (1 - target) * std::log(1 - sigmoid)) / 6;
    }
  }
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(losses[i].item() == doctest::Approx(focal).epsilon(1e-6));
    CHECK(losses[2 + i].item() == doctest::Approx(binary).epsilon(1e-6));
  }
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
}

TEST_CASE("every model that has a width becomes narrower with it, and refuses one of 0") {
  for (const std::string& name : distinct_models()) {
    CAPTURE(name);
    const std::vector<std::string> names = models::model_option_names(name);
    if (std::find(names.begin(), names.end(), "width") == names.end()) continue;
    const auto count = [&](double width) {
      Context context(make_backend(Device{}), 1);
      models::ModelOptions options = small_model({20, 20, 3});
      options.width = width;
      return models::make_model(name, context, options)->parameter_count();
    };
    CHECK(count(0.125) < count(0.25));
    CHECK_THROWS_AS(count(0), Error);
  }
}

TEST_CASE("unknown models and wrong options are refused with the list of valid names") {
  Context context(make_backend(Device{}), 1);
  CHECK_THROWS_WITH_AS(
      models::make_model("resnet21", context, {}),
      doctest::Contains("there is no model 'resnet21' (did you mean 'resnet20'?); there are alexnet, "), Error);
  CHECK_THROWS_AS(models::ResNet(context, 21, {}), Error);
  CHECK_THROWS_AS(models::ResNet(context, 18, {.groups = 2}), Error);
  CHECK_THROWS_AS(models::make_model("resnet18", context, {.stem = "tiny"}), Error);
  CHECK_THROWS_AS(models::make_model("lenet5", context, {.image_shape = {28, 32, 1}}), Error);
  CHECK_THROWS_AS(models::make_model("lenet5", context, {.image_shape = {8, 8, 1}}), Error);
}

}  // namespace
}  // namespace braid
