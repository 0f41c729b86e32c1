#include <doctest/doctest.h>

#include <filesystem>

#include "core/read_file.h"
#include "models/layers.h"
#include "ops/concat.h"
#include "runtime/session.h"
#include "tests/data/files.h"
#include "tests/models/small_model.h"
#include "train/checkpoint/checkpoint.h"
#include "train/export/forward_pass.h"
#include "train/export/onnx.h"
#include "train/export/protobuf.h"
#include "train/export/weights.h"

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

/// As in a generator.
class Deconvolution final : public Module {
 public:
  explicit Deconvolution(Context& context)
      : Module(context),
        deconv_(add<ConvTransposeLayer>("deconv", 3, 5, 2, ConvTranspose2dOptions{.stride = 3, .output_padding = 1})) {}
  Tensor forward(const Tensor& x) override { return global_avg_pool(deconv_(x)); }

 private:
  ConvTransposeLayer& deconv_;
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

TEST_CASE("a transposed convolution is exported with its filter in ONNX's order and what it pads") {
  const TemporaryFolder folder;
  Session session({.device = "cpu", .streams = 1});
  Deconvolution model(session);
  const ForwardPass forward(model, {2, 2, 3});
  CHECK(weights_of_pixels(forward.graph()).begin()->second == Shape{3, 2, 2, 5});
  export_onnx(folder.path() + "/net.onnx", model, {2, 2, 3});
  const std::string bytes = read_file(folder.path() + "/net.onnx", "it");
  CHECK(contains(bytes, "ConvTranspose"));
  CHECK(contains(bytes, ProtoMessage().text(1, "output_padding").number(20, 7).number(8, 1).number(8, 1).bytes()));
  const Array filter = channels_first(session.read(*model.parameters()[0]), {3, 2, 2, 5});
  CHECK(contains(bytes, std::string(reinterpret_cast<const char*>(filter.data()), filter.bytes())));
}

TEST_CASE("channels move before pixels and back") {
  const Array krsc = noise({2, 3, 1, 4});
  const Array kcrs = channels_first(krsc, krsc.shape());
  CHECK(kcrs.as<float>()[1] == krsc.as<float>()[4]);
  CHECK(kcrs.as<float>()[3] == krsc.as<float>()[1]);
  CHECK(std::ranges::equal(channels_last(kcrs, krsc.shape()).as<float>(), krsc.as<float>()));
}

namespace {

const Shape kPicture{40, 40, 3};

struct Net {
  explicit Net(const std::string& name, std::uint64_t seed, int classes = 7, bool auxiliary = false)
      : session({.device = "cpu", .streams = 1, .seed = seed}) {
    models::ModelOptions options = small_model(kPicture);
    options.classes = classes;
    options.auxiliary = auxiliary;
    model = models::make_model(name, session, options);
  }
  std::vector<float> elements(const std::string& name) {
    for (Parameter* tensor : model->tensors()) {
      if (tensor->name() != name) continue;
      const Array array = session.read(*tensor);
      return {array.as<float>().begin(), array.as<float>().end()};
    }
    return {};
  }
  std::vector<float> elements() {
    std::vector<float> all;
    for (const Parameter* tensor : model->tensors()) {
      const std::vector<float> own = elements(tensor->name());
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  Session session;
  std::unique_ptr<Module> model;
};

}  // namespace

TEST_CASE("weights in torchvision's layouts come back as they were") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/net.safetensors";
  for (const char* name : {"alexnet", "resnet18", "mobilenet_v2", "efficientnet_b0", "vgg16_bn"}) {
    CAPTURE(name);
    Net from(name, 1), to(name, 2);
    CHECK(from.elements() != to.elements());
    export_weights(path, *from.model, kPicture);
    CHECK(load_weights(path, *to.model, kPicture) == "starts from the weights in " + path);
    CHECK(from.elements() == to.elements());
  }
  const SafeTensors file(path);
  CHECK(file.entries().at("features.0.weight").shape == std::vector<std::int64_t>{8, 3, 3, 3});
  CHECK(file.entries().at("features.1.num_batches_tracked").dtype == "I64");
  CHECK(file.entries().at("features.1.num_batches_tracked").shape.empty());
}

TEST_CASE("the model file of a run gives the same weights") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/net.safetensors";
  Net from("alexnet", 1), to("alexnet", 2);
  save_checkpoint(path, from.session, from.model->tensors());
  load_weights(path, *to.model, kPicture);
  CHECK(from.elements() == to.elements());
}

TEST_CASE("with another number of classes the classifiers stay as they are, and a line says so") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/net.safetensors";
  for (const auto& [name, layer] : {std::pair("resnet18", "fc"), {"squeezenet1_0", "classifier.1"}}) {
    Net from(name, 1, 9), to(name, 2);
    export_weights(path, *from.model, kPicture);
    const std::string weight = message(layer, ".weight"), bias = message(layer, ".bias");
    const std::vector<float> before = to.elements(weight);
    CHECK(load_weights(path, *to.model, kPicture) == message("starts from the weights in ", path, "; ", weight, ", ",
                                                             bias, " at random, as the file has 9 classes"));
    CHECK(to.elements(weight) == before);
    const std::string first = from.model->parameters().front()->name();
    CHECK(to.elements(first) == from.elements(first));
  }
}

TEST_CASE("auxiliary classifiers in a file are left out of a network without them, but not the other way round") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/net.safetensors";
  Net with("googlenet", 1, 7, true), without("googlenet", 2);
  export_weights(path, *with.model, kPicture);
  CHECK(contains(load_weights(path, *without.model, kPicture), "; leaves out 18 tensors of auxiliary classifiers"));
  CHECK(with.elements("inception4a.branch1.conv.weight") == without.elements("inception4a.branch1.conv.weight"));
  export_weights(path, *without.model, kPicture);
  CHECK(contains(error_of<DataError>([&] { load_weights(path, *with.model, kPicture); }), "has no tensor 'aux1."));
}

TEST_CASE("weights of another network are an error that names the tensor and changes none") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/net.safetensors";
  Net small("resnet20", 1), large("resnet32", 2), other("alexnet", 3);
  const std::vector<float> before = small.elements(), before_large = large.elements();
  export_weights(path, *large.model, kPicture);
  CHECK(error_of<DataError>([&] { load_weights(path, *small.model, kPicture); }) ==
        path + ": has a tensor 'layer1.3.bn1.bias' that the network does not have: it belongs to another network");
  export_weights(path, *small.model, kPicture);
  CHECK(error_of<DataError>([&] { load_weights(path, *large.model, kPicture); }) ==
        path + ": has no tensor 'layer1.3.conv1.weight': it belongs to another network");
  models::ModelOptions wide = small_model(kPicture);
  wide.width = 0.25;
  Session another({.device = "cpu", .streams = 1});
  const auto wider = models::make_model("resnet20", another, wide);
  CHECK(error_of<DataError>([&] { load_weights(path, *wider, kPicture); }) ==
        path + ": tensor 'conv1.weight': expected f32 [4,3,3,3], found f32 [2,3,3,3]");
  CHECK(small.elements() == before);
  CHECK(large.elements() == before_large);
}
