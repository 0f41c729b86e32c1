// For scripts/check_exports.py, which compares what Braid and other libraries compute.
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

#include "runtime/session.h"
#include "tests/models/small_model.h"
#include "train/checkpoint/files.h"
#include "train/export/onnx.h"
#include "train/export/weights.h"
#include "train/optimizer.h"

namespace braid {

namespace {

namespace fs = std::filesystem;

/// With running statistics that are not those of a new network.
void train(Session& session, Module& model, const Shape& images) {
  SGD sgd(model.parameters(), {.lr = 1e-3, .momentum = 0});
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Array pixels = noise(images, seed);
    Step step = session.step();
    backward(training_loss(model.heads(pixels), labels(images[0])));
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
  const auto model = models::make_model(name, session, options);
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
    for (const std::string& name : given.empty() ? models::model_names() : given) {
      models::ModelOptions options = small_model({32, 32, 3});
      const std::string file = fs::path(arguments[2]) / name;
      export_network(name, options, file, mode == "read");
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
