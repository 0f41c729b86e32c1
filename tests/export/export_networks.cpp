// Networks for scripts/check_exports.py, which compares what Braid and other libraries compute.
//
//     export_networks write FOLDER [NETWORK …]    trains every network for a few steps, exports it, and writes some
//     images
//                                                 and Braid's logits of them
//     export_networks read FOLDER [NETWORK …]     does the same for networks whose weights are in NAME.back.safetensors

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "models/layers/layers.h"
#include "runtime/session.h"
#include "tests/models/small_model.h"
#include "train/checkpoint/files.h"
#include "train/export/onnx.h"
#include "train/export/weights.h"
#include "train/optimizer.h"

namespace braid {

namespace {

namespace fs = std::filesystem;

/// Uses functions that the networks of the registry leave out.
class Functions final : public Module {
 public:
  static constexpr std::string_view kName = "functions";
  explicit Functions(Context& context)
      : Module(context),
        conv_(add<ConvLayer>("conv", 3, 6, 3)),
        shift_(add_tensor("shift", {6})),
        linear_(add<LinearLayer>("linear", 6, 7)) {
    normal(context, shift_, 1);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = gelu(conv_(x)) + shift_;
    const Tensor part = pad(slice(y, 1, 2, 17), {{}, {1, 2}, {-3, 1}, {}}, 0.5);
    const Tensor turned = transpose(part, 1, 2);
    const Tensor gated = silu(turned) * sigmoid(amax(turned, 1, true) - clamp(turned, -0.5, 0.25));
    return linear_(mean(elu(hardswish(leaky_relu(gated))), {1, 2}));
  }

 private:
  ConvLayer& conv_;
  Parameter& shift_;
  LinearLayer& linear_;
};

/// Gives a model running statistics that are not those of a new network.
void train(Session& session, Module& model, const Shape& images) {
  SGD sgd(model.parameters(), {.lr = 1e-3, .momentum = 0});
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Array pixels = noise(images, seed);
    Step step = session.step();
    const std::vector<Head> heads = model.heads(pixels);
    backward(training_loss(heads, labels_of(heads[0].logits)));
    sgd.step();
    step.run();
  }
}

void write(const fs::path& path, const Array& array) {
  AtomicFile file(path);
  file.write(array.data(), array.bytes());
  file.commit();
}

void write_logits(Session& session, Module& model, const Array& pixels, const std::string& path) {
  const ModuleMode evaluation(model, false);
  Step step = session.step();
  const NoGrad no_grad;
  const Tensor logits = model(pixels);
  step.run();
  write(path, logits.array());
}

void export_network(const std::string& name, const models::ModelOptions& options, const std::string& file, bool read) {
  Session session({.device = "cpu", .streams = 1});
  const std::unique_ptr<Module> model =
      name == Functions::kName ? std::make_unique<Functions>(session) : models::make_model(name, session, options);
  const Shape &image = options.image_shape, images{4, image[0], image[1], image[2]};
  const Array pixels = noise(images, 9);
  if (read) {
    const std::string path = file + ".back.safetensors";
    if (!fs::exists(path)) return;
    load_weights(path, *model, image);
    return write_logits(session, *model, pixels, file + ".back.logits");
  }
  train(session, *model, images);
  export_onnx(file + ".onnx", *model, image);
  export_weights(file + ".safetensors", *model, image);
  write(file + ".images", pixels);
  write_logits(session, *model, pixels, file + ".logits");
}

}  // namespace

}  // namespace braid

int main(int count, char** arguments) {
  using namespace braid;
  const std::vector<std::string> given(arguments + std::min(count, 3), arguments + count);
  const std::string mode = count < 3 ? "" : arguments[1];
  if (mode != "write" && mode != "read") {
    std::cerr << "usage: export_networks write|read FOLDER [NETWORK …]\n";
    return 2;
  }
  try {
    std::vector<std::string> names = given.empty() ? models::model_names() : given;
    if (given.empty()) names.emplace_back(Functions::kName);
    for (const std::string& name : names) {
      models::ModelOptions options = small_model({32, 32, 3});
      const std::string file = fs::path(arguments[2]) / name;
      export_network(name, options, file, mode == "read");
      if (name == Functions::kName) continue;
      const std::vector<std::string> known = models::model_option_names(name);
      if (std::ranges::find(known, "stem") == known.end()) continue;
      options.image_shape = {107, 123, 3};  // odd, not square, and with windows that reach beyond the end
      options.stem = "image";
      export_network(name, options, file + "_large", mode == "read");
    }
  } catch (const std::exception& error) {
    std::cerr << "export_networks: " << error.what() << '\n';
    return 1;
  }
}
