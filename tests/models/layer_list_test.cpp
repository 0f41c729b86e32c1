// Networks given as lists of layers.

#include "models/layers/layer_list.h"

#include <doctest/doctest.h>

#include <cmath>

#include "runtime/session.h"
#include "tests/error_of.h"
#include "tests/models/small_model.h"

namespace braid {
namespace {

using models::LayerList;
using models::LayerSpec;

const std::vector<LayerSpec> kBranched{
    {.type = "conv", .name = "stem", .channels = 6, .kernel = {3}, .padding = {LayerSpec::kSame}, .bias = false},
    {.type = "batch_norm", .activation = "relu"},
    {.type = "conv", .name = "left", .channels = 4, .kernel = {1}, .activation = "silu"},
    {.type = "conv", .name = "right", .from = {"1"}, .channels = 2, .kernel = {3, 1}, .padding = {1, 0}, .groups = 2},
    {.type = "concat", .name = "both", .from = {"left", "right"}},
    {.type = "add", .name = "sum", .from = {"both", "1"}, .activation = "relu"},
    {.type = "global_avg_pool"},
    {.type = "linear", .name = "fc"},
};

/// The same in C++.
class Branched final : public Module {
 public:
  explicit Branched(Context& context)
      : Module(context),
        stem_(add<ConvLayer>("stem", 3, 6, 3, {.padding = 1})),
        norm_(add<BatchNormLayer>("1", 6, Activation::relu)),
        left_(add<ConvLayer>("left", 6, 4, 1, Conv2dOptions{}, Bias::yes)),
        right_(add<ConvLayer>("right", 6, 2, Extent2d(3, 1), Conv2dOptions{.padding = {1, 0}, .groups = 2}, Bias::yes)),
        fc_(add<LinearLayer>("fc", 6, 7)) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = norm_(stem_(x));
    return fc_(global_avg_pool(relu(sum({concat({silu(left_(y)), right_(y)}), y}))));
  }

 private:
  ConvLayer& stem_;
  BatchNormLayer& norm_;
  ConvLayer &left_, &right_;
  LinearLayer& fc_;
};

/// Names, gradients and the loss of a training step, as bytes.
std::string step_of(Session& session, Module& model) {
  std::string bytes;
  const auto append = [&](const Array& array) {
    const auto values = array.as<float>();
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  };
  Step step = session.step();
  const Tensor loss = cross_entropy(model(noise({5, 8, 10, 3})), labels(5));
  backward(loss);
  std::vector<Tensor> gradients;
  for (const Parameter* parameter : model.parameters()) gradients.push_back(gradient(*parameter).keep());
  step.run();
  append(loss.array());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    bytes += model.parameters()[i]->name() + '\n';
    append(gradients[i].array());
  }
  return bytes;
}

std::string error_of(const std::vector<LayerSpec>& layers, const Shape& image = {8, 10, 3}) {
  Context context(make_backend(Device{}), 1);
  return testing::error_of<Error>([&] { LayerList(context, layers, image, 7); });
}

TEST_CASE("a list of layers computes, bit by bit, what the same module does") {
  Session a({.device = "cpu", .streams = 1}), b({.device = "cpu", .streams = 1});
  LayerList list(a, kBranched, {8, 10, 3}, 7);
  Branched module(b);
  const std::string expected = step_of(b, module);
  CHECK(step_of(a, list) == expected);
  CHECK(expected.find("right.bias") != std::string::npos);
  CHECK_FALSE(list.parameters().empty());
}

TEST_CASE("every type of layer takes part in a training step and in evaluation") {
  const std::vector<LayerSpec> layers{
      {.type = "conv", .channels = 8, .kernel = {3}, .stride = {2}, .dilation = 2},
      {.type = "group_norm", .groups = 4, .activation = "gelu"},
      {.type = "upsample", .scale = 2, .mode = "bilinear"},
      {.type = "layer_norm", .activation = "leaky_relu"},
      {.type = "conv", .channels = 8, .kernel = {1}, .activation = "relu6"},
      {.type = "batch_norm", .activation = "tanh"},
      {.type = "max_pool", .kernel = {3}, .stride = {1}, .padding = {LayerSpec::kSame}},
      {.type = "avg_pool", .name = "pool", .kernel = {2}},
      {.type = "relu"},
      {.type = "relu6"},
      {.type = "silu"},
      {.type = "gelu"},
      {.type = "tanh"},
      {.type = "elu"},
      {.type = "hardswish"},
      {.type = "upsample", .name = "exact", .scale = 1, .mode = "nearest_exact"},
      {.type = "upsample", .name = "cubic", .scale = 1, .mode = "bicubic"},
      {.type = "leaky_relu", .name = "leaky", .slope = 0.2},
      {.type = "adaptive_avg_pool", .name = "mean", .size = 1},
      {.type = "sigmoid", .name = "gate"},
      {.type = "multiply", .name = "gated", .from = {"leaky", "gate"}},
      {.type = "add", .name = "residual", .from = {"gated", "pool"}},
      {.type = "adaptive_avg_pool", .name = "again", .size = 2},
      {.type = "flatten", .name = "flat"},
      {.type = "concat", .name = "twice", .from = {"flat", "flat"}},
      {.type = "dropout"},
      {.type = "linear", .size = 9, .activation = "relu"},
      {.type = "batch_norm"},
      {.type = "linear", .name = "fc"},
  };
  std::vector<std::string> unused = LayerList::types();
  for (const LayerSpec& layer : layers) std::erase(unused, layer.type);
  CHECK(unused == std::vector<std::string>{"global_avg_pool"});  // is in the other list
  Session session({.device = "cpu", .streams = 2});
  LayerList list(session, layers, {21, 25, 3}, 7);
  CHECK(list.parameter_count() ==
        (27 * 8 + 8) + 16 + 16 + (8 * 8 + 8) + 16 + (2 * 2 * 8 * 2 * 9 + 9) + 18 + (9 * 7 + 7));
  Step step = session.step();
  const Tensor loss = cross_entropy(list(noise({4, 21, 25, 3})), labels(4));
  backward(loss);
  for (const Parameter* parameter : list.parameters()) {
    CAPTURE(parameter->name());
    CHECK(session.tape().gradient(*parameter) != kNoValue);
  }
  step.run();
  CHECK(std::isfinite(loss.item()));
  list.eval();
  Step evaluation = session.step();
  const Tensor logits = list(noise({3, 21, 25, 3}));
  evaluation.run();
  CHECK(logits.array().shape() == Shape{3, 7});
}

TEST_CASE("ReLU after a convolution or a batch norm is part of its node, and nodes belong to their layer") {
  Session session({.device = "cpu", .streams = 1});
  LayerList list(session,
                 {{.type = "conv", .name = "a", .channels = 4, .kernel = {3}, .activation = "relu"},
                  {.type = "batch_norm", .name = "b", .activation = "relu6"},
                  {.type = "conv", .name = "c", .channels = 4, .kernel = {1}, .activation = "tanh"},
                  {.type = "flatten", .name = "d"},
                  {.type = "linear", .name = "e"}},
                 {5, 5, 3}, 7);
  const Step step = session.step();
  (void)list(noise({1, 5, 5, 3}));
  std::string nodes;
  const Tape& tape = session.tape();
  for (NodeId id = 0; id < tape.graph().node_count(); ++id) {
    nodes += message(tape.layer(id), ':', tape.graph().node(id).op->name(), ' ');
  }
  CHECK(nodes.find("a:conv2d b:batch_norm c:conv2d c:") == 0);
  CHECK(nodes.find("relu") == std::string::npos);
}

TEST_CASE("mistakes in a list of layers name the layer and what is wrong with it") {
  const LayerSpec conv{.type = "conv", .name = "c", .channels = 4, .kernel = {3}};
  const LayerSpec pool{.type = "global_avg_pool"}, fc{.type = "linear", .name = "fc"};
  struct Row {
    std::vector<LayerSpec> layers;
    const char* error;
  };
  const Row rows[] = {
      {{}, "[model] expected at least one layer"},
      {{{.type = "convv"}}, "[model] layer '0': type: there is no type of layer 'convv' (did you mean 'conv'?)"},
      {{conv, {.type = "relu", .from = {"d"}}}, "[model] layer '1': from: there is no layer 'd'"},
      {{conv, {.type = "relu", .from = {"inputt"}}},
       "[model] layer '1': from: there is no layer 'inputt' (did you mean 'input'?)"},
      {{conv, {.type = "relu", .from = {"fc"}}, fc}, "[model] layer '1': from: 'fc' is not above this layer"},
      {{conv, {.type = "relu", .name = "r", .from = {"r"}}}, "[model] layer 'r': from: 'r' is not above this layer"},
      {{conv, conv, pool, fc}, "[model] layer 'c': name: another layer already has the name 'c'"},
      {{conv, {.type = "relu", .name = "input"}}, "[model] layer 'input': name: another layer already has the name"},
      {{conv, {.type = "relu", .from = {"c", "input"}}}, "[model] layer '1': from: 'relu' reads one layer"},
      {{conv, {.type = "add", .from = {"c"}}}, "[model] layer '1': from: expected the names of two or more layers"},
      {{conv, {.type = "add"}}, "[model] layer '1': from: expected the names of two or more layers"},
      {{conv, {.type = "relu", .name = "r", .from = {"input"}}},
       "[model] layer 'c': name: no other layer reads 'c', and it is not the last"},
      {{conv, {.type = "add", .name = "s", .from = {"c", "input"}}},
       "[model] layer 's': [sum] expected an input of shape"},
      {{conv, fc},
       "[model] layer 'fc': expected [N,features], as flatten and global_avg_pool give them, got [2,6,8,4]"},
      {{{.type = "flatten"}, conv}, "[model] layer 'c': expected images [N,H,W,C], got [2,240]"},
      {{{.type = "conv", .channels = 4, .kernel = {9}}}, "[model] layer '0': [conv2d] "},
      {{{.type = "conv", .channels = 4, .kernel = {3}, .groups = 2}},
       "[model] layer '0': [conv] expected groups that divide 3 and 4 channels, got 2"},
      {{{.type = "conv", .channels = 4, .kernel = {2}, .padding = {LayerSpec::kSame}}},
       "[model] layer '0': padding 'same' needs an odd kernel, got 2x2"},
      {{{.type = "conv", .channels = 4, .kernel = {2}, .activation = "rel"}},
       "[model] layer '0': there is no activation 'rel' (did you mean 'relu'?)"},
      {{conv, pool}, "[model] layer '1': expected the last layer to give logits [N,7], got [2,4] for N = 2"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    const std::string error = error_of(row.layers);
    CAPTURE(error);
    CHECK(error.starts_with(row.error));
  }
  CHECK(error_of({conv, pool, fc}) == "");
}

}  // namespace
}  // namespace braid
