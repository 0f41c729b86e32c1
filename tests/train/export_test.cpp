#include <doctest/doctest.h>

#include <filesystem>

#include "core/read_file.h"
#include "models/layers.h"
#include "ops/concat.h"
#include "runtime/session.h"
#include "tests/data/files.h"
#include "tests/models/small_model.h"
#include "train/export/forward_pass.h"
#include "train/export/onnx.h"
#include "train/export/protobuf.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// Half of the channels.
class HalfOfChannels final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override {
    return global_avg_pool(apply_op(std::make_shared<ops::ChannelSlice>(0, x.shape()[3] / 2), {x}));
  }
};

/// Batch norm of each pixel, whose parameters have an order of pixels that the export would have to change.
class PixelNorm final : public Module {
 public:
  explicit PixelNorm(Context& context) : Module(context), norm_(add<BatchNormLayer>("norm", 12)) {}
  Tensor forward(const Tensor& x) override { return norm_(flatten(x)); }

 private:
  BatchNormLayer& norm_;
};

}  // namespace

TEST_CASE("a message has the bytes that the documentation of Protocol Buffers gives") {
  CHECK(ProtoMessage().number(1, 150).bytes() == "\x08\x96\x01");
  CHECK(ProtoMessage().text(2, "testing").bytes() == "\x12\x07testing");
  CHECK(ProtoMessage().message(3, ProtoMessage().number(1, 150)).bytes() == "\x1a\x03\x08\x96\x01");
  CHECK(ProtoMessage().number(1, -2).bytes() == "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  CHECK(ProtoMessage().real(1, 1.0f).bytes() == std::string("\x0d\0\0\x80\x3f", 5));
}

TEST_CASE("an op or an order of elements that ONNX export has no translation for is an error that names it") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/net.onnx";
  Session session({.device = "cpu", .streams = 1});
  HalfOfChannels half(session);
  CHECK(error_of<Error>([&] {
          export_onnx(path, half, {2, 2, 4});
        }) == "[onnx] the layer '' has no translation: channel_slice{begin: 0, count: 2}");
  PixelNorm norm(session);
  CHECK(contains(error_of<Error>([&] {
                   export_onnx(path, norm, {2, 2, 3});
                 }),
                 "[onnx] the layer 'norm' has no translation: batch_norm_inference{"));
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("an export leaves the model in its mode and the session without a step, and repeats byte by byte") {
  const TemporaryFolder folder;
  Session session({.device = "cpu", .streams = 1});
  const auto model = models::make_model("lenet5", session, small_model({28, 28, 1}));
  for (const char* name : {"/a.onnx", "/b.onnx"}) export_onnx(folder.path() + name, *model, {28, 28, 1});
  CHECK(model->training());
  CHECK(session.stats().steps == 0);
  CHECK(read_file(folder.path() + "/a.onnx", "it") == read_file(folder.path() + "/b.onnx", "it"));
}

TEST_CASE("the weights that hold pixels are filters and what reads flattened images, through dropout too") {
  Session session({.device = "cpu", .streams = 1});
  const auto model = models::make_model("alexnet", session, small_model({64, 64, 3}));
  const ForwardPass training(*model, {64, 64, 3}, true);
  std::map<std::string, Shape> found;
  for (const auto& [slot, shape] : weights_of_pixels(training.graph())) found[session.parameter(slot).name()] = shape;
  CHECK(found.size() == 6);
  CHECK(found["features.0.weight"] == Shape{8, 5, 5, 3});
  CHECK(found["classifier.1.weight"] == Shape{128, 2, 2, 32});
  CHECK(model->training());
}

TEST_CASE("channels move before pixels and back") {
  const Array krsc = noise({2, 3, 1, 4});
  const Array kcrs = channels_first(krsc, krsc.shape());
  CHECK(kcrs.as<float>()[1] == krsc.as<float>()[4]);
  CHECK(kcrs.as<float>()[3] == krsc.as<float>()[1]);
  CHECK(std::ranges::equal(channels_last(kcrs, krsc.shape()).as<float>(), krsc.as<float>()));
}
