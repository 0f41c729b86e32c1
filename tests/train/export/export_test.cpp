#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/read_file.h"
#include "models/layers/layers.h"
#include "ops/layout/concat.h"
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

/// A convolution and some functions of the flattened image, drawn by the seed, before a fully connected layer. With
/// `first`, it flattens channels first, as PyTorch does.
class FlatNetwork final : public Module {
 public:
  static constexpr std::int64_t kPixels = 2 * 3, kChannels = 4, kClasses = 5;

  FlatNetwork(Context& context, std::uint64_t seed, bool first)
      : Module(context), first_(first), conv_(add<ConvLayer>("conv", 3, kChannels, 3, Conv2dOptions{.padding = 1})) {
    Generator random(seed);
    std::int64_t features = kPixels * kChannels;
    for (int i = 0; i < 4; ++i) {
      const std::string name = message("layer", i);
      steps_.push_back(draw(random.below(9), name, features));
    }
    linear_ = &add<LinearLayer>("linear", features, kClasses);
  }
  Tensor forward(const Tensor& image) override {
    const Tensor y = conv_(image);
    Tensor x = flatten(first_ ? permute(y, {0, 3, 1, 2}) : y);
    for (const auto& step : steps_) x = step(x);
    return (*linear_)(x);
  }

 private:
  using Function = std::function<Tensor(const Tensor&)>;

  Function draw(std::uint32_t kind, const std::string& name, std::int64_t& features) {
    switch (kind) {
      case 0: return [](const Tensor& x) { return gelu(x); };
      case 1: return [](const Tensor& x) { return sigmoid(x) * tanh(x); };
      case 2: return [](const Tensor& x) { return leaky_relu(relu6(x) - 1.0); };
      case 3: return [&norm = add<BatchNormLayer>(name, features)](const Tensor& x) { return norm(x); };
      case 4: return [&norm = add<LayerNormLayer>(name, features)](const Tensor& x) { return norm(x); };
      case 5: features *= 2; return [](const Tensor& x) { return concat({x, x * 2}); };
      case 6: return [](const Tensor& x) { return softmax(x) * amax(x, -1, true); };
      case 7: return [&scale = add_tensor(name, {features})](const Tensor& x) { return x * scale; };
      default: return [](const Tensor& x) { return x + dropout(x, 0.0, 0); };
    }
  }

  bool first_;
  ConvLayer& conv_;
  std::vector<Function> steps_;
  LinearLayer* linear_ = nullptr;
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
  FunctionLayer half(session, [](const Tensor& x) {
    return global_avg_pool(apply_op(std::make_shared<ops::ChannelSlice>(0, 2), {x}));
  });
  CHECK(error_of<Error>([&] {
          export_onnx(path, half, {2, 2, 4});
        }) == "[onnx] the layer '' has no translation: channel_slice{begin: 0, count: 2}");
  Sequential pixels(session);  // which pixels are left is unknown
  pixels.append<FunctionLayer>([](const Tensor& x) { return relu(slice(flatten(x), 1, 0, 6)); });
  pixels.append<LinearLayer>(6, 2);
  const std::string order = "[export] the layer '1' reads a flattened image in an order that cannot be followed: ";
  CHECK(contains(error_of<Error>([&] { export_onnx(path, pixels, {2, 2, 3}); }), order));
  CHECK(contains(error_of<Error>([&] { export_weights(path, pixels, {2, 2, 3}); }), order));
  CHECK_FALSE(std::filesystem::exists(path));
  save_checkpoint(path, session, pixels.tensors());  // in Braid's own layouts there is no order to follow
  CHECK(load_weights(path, pixels, {2, 2, 3}) == "starts from the weights in " + path);
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

TEST_CASE("a transposed convolution is exported with its filter in ONNX's order and what it pads") {
  const TemporaryFolder folder;
  Session session({.device = "cpu", .streams = 1});
  Sequential model(session);
  model.append<ConvTransposeLayer>(3, 5, 2, ConvTranspose2dOptions{.stride = 3, .output_padding = 1});
  model.append<FunctionLayer>(global_avg_pool);
  const ForwardPass forward(model, {2, 2, 3});
  const FeatureOrders orders(forward);
  const FeatureOrder& order = *orders.of_weight(model.parameters()[0]->slot());
  CHECK(order == order_of_pixels({2, 2, 5}));
  export_onnx(folder.path() + "/net.onnx", model, {2, 2, 3});
  const std::string bytes = read_file(folder.path() + "/net.onnx", "it");
  CHECK(contains(bytes, "ConvTranspose"));
  CHECK(contains(bytes, ProtoMessage().text(1, "output_padding").number(20, 7).number(8, 1).number(8, 1).bytes()));
  const Array filter = channels_first(session.read(*model.parameters()[0]), order);
  CHECK(contains(bytes, std::string(reinterpret_cast<const char*>(filter.data()), filter.bytes())));
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

TEST_CASE("weights behind a flatten and any functions give the same outputs where channels come first") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/net.safetensors";
  const Shape image{2, 3, 3};
  const Array x = noise({4, 2, 3, 3});
  const auto outputs = [&](Session& session, Module& model) {
    const ModuleMode mode(model, false);
    Step step = session.step();
    const Tensor y = model(x).keep();
    step.run();
    return y.array();
  };
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Session session({.device = "cpu", .streams = 1, .seed = 1}), theirs({.device = "cpu", .streams = 1, .seed = 2});
    Session empty({.device = "cpu", .streams = 1, .seed = 3});
    FlatNetwork net(session, seed, false), first(theirs, seed, true), back(empty, seed, false);
    for (Parameter* tensor : net.tensors()) {
      Array values = noise(tensor->shape(), static_cast<std::uint64_t>(tensor->slot()));
      if (tensor->name().ends_with("running_var")) {
        for (float& value : values.as<float>()) value = std::abs(value) + 0.5f;
      }
      session.write(*tensor, values);
    }
    export_weights(path, net, image);
    const SafeTensors file(path);
    for (Parameter* tensor : first.tensors()) {
      const Array array = file.array(tensor->name());
      const bool filter = tensor->shape().rank() == 4;
      theirs.write(*tensor, filter ? channels_last(array, order_of_pixels({3, 3, 3}), tensor->shape()) : array);
    }
    load_weights(path, back, image);
    const Array own = outputs(session, net), other = outputs(theirs, first);
    for (std::size_t i = 0; i < own.as<float>().size(); ++i) {
      CHECK(own.as<float>()[i] == doctest::Approx(other.as<float>()[i]).epsilon(1e-4));
    }
    CHECK(std::ranges::equal(outputs(empty, back).as<float>(), own.as<float>()));
  }
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

TEST_CASE("the model of a run with classes of other names gives no classifier") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/net.safetensors";
  Net from("resnet18", 1), same("resnet18", 2), other("resnet18", 2);
  std::map<std::string, std::string> metadata = layout_metadata();
  metadata["classes"] = R"(["a","b","c","d","e","f","g"])";
  write_safetensors(path, copies_of(from.session, from.model->tensors()), metadata);
  const std::vector<float> before = other.elements("fc.weight");
  load_weights(path, *same.model, kPicture, {"a", "b", "c", "d", "e", "f", "g"});
  CHECK(same.elements() == from.elements());
  CHECK(contains(load_weights(path, *other.model, kPicture, {"b", "a", "c", "d", "e", "f", "g"}),
                 R"(; fc.weight, fc.bias at random, as the file has the classes ["a","b","c","d","e","f","g"])"));
  CHECK(other.elements("fc.weight") == before);
  CHECK(other.elements("conv1.weight") == from.elements("conv1.weight"));
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
