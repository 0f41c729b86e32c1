// Which nodes elementwise functions, reductions and softmax become. What other libraries make of them:
// scripts/check_exports.py.

#include "train/export/onnx.h"

#include <doctest/doctest.h>

#include "models/layers/layers.h"
#include "models/registry.h"
#include "runtime/session.h"
#include "tests/train/run_files.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// A convolution, the function, and a fully connected layer.
class FunctionNet final : public Module {
 public:
  FunctionNet(Context& context, std::function<Tensor(const Tensor&)> function)
      : Module(context),
        conv_(add<ConvLayer>("conv", 3, 8, 3)),
        function_(add<FunctionLayer>("function", std::move(function))),
        linear_(add<LinearLayer>("linear", 8, 5)) {}
  Tensor forward(const Tensor& x) override { return linear_(mean(function_(conv_(x)), {1, 2})); }

 private:
  ConvLayer& conv_;
  FunctionLayer& function_;
  LinearLayer& linear_;
};

std::string exported(Module& net, const Shape& image) {
  const TemporaryFolder folder;
  export_onnx(folder.path() + "/net.onnx", net, image);
  return bytes_of(folder.path() + "/net.onnx");
}

std::string exported(std::function<Tensor(const Tensor&)> function) {
  Session session({.device = "cpu", .streams = 1});
  FunctionNet net(session, std::move(function));
  return exported(net, {8, 8, 3});
}

}  // namespace

TEST_CASE("functions of tensors become nodes of ONNX") {
  CHECK(contains(exported([](const Tensor& x) { return silu(x); }), "Sigmoid"));
  CHECK(contains(exported([](const Tensor& x) { return gelu(x); }), "Erf"));
  CHECK(contains(exported([](const Tensor& x) { return x * sigmoid(amax(x, {1, 2}, true)); }), "ReduceMax"));
  CHECK(contains(exported([](const Tensor& x) { return log_softmax(x); }), "LogSoftmax"));
  const std::string clamped = exported([](const Tensor& x) { return clamp(leaky_relu(x), -1, 1); });
  for (const char* node : {"PRelu", "Max", "Min", "ReduceMean"}) CHECK(contains(clamped, node));
  CHECK_FALSE(contains(clamped, "Sigmoid"));
}

TEST_CASE("slices, paddings, other orders of axes and numbers of channels become nodes of ONNX") {
  CHECK(contains(exported([](const Tensor& x) { return slice(x, 2, 1, 4); }), "Slice"));
  CHECK_FALSE(contains(exported([](const Tensor& x) { return slice(x, 2, 1, 4); }), "Pad"));
  CHECK(contains(exported([](const Tensor& x) { return pad(x, {{}, {1, 0}, {}, {}}, 2); }), "Pad"));
  CHECK(contains(exported([](const Tensor& x) { return transpose(x, 1, 2); }), "Transpose"));
  CHECK_THROWS_AS(exported([](const Tensor& x) { return slice(x, 0, 0, 1); }), Error);
}

TEST_CASE("an output may be an image") {
  Session session({.device = "cpu", .streams = 1});
  const auto net = models::make_model("unet", session, {.classes = 3, .image_shape = {8, 12, 1}, .width = 0.05});
  CHECK(contains(exported(*net, {8, 12, 1}), "ConvTranspose"));
}

TEST_CASE("what depends on the order of an image's axes has no translation") {
  const auto mean_over_rows = [](const Tensor& x) { return reshape(mean(x, 1), {2, 6, 1, 8}); };
  CHECK_THROWS_WITH_AS(exported(mean_over_rows), doctest::Contains("has no translation: reduce{kind: mean"), Error);
  const auto add_row = [](const Tensor& x) { return x + Array(DType::f32, {6, 8}); };
  CHECK_THROWS_WITH_AS(exported(add_row), doctest::Contains("has no translation: elementwise{"), Error);
}
