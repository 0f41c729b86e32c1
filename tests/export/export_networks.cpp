// Trains every network for a few steps, exports it, and writes the logits that Braid computes for some images, for
// scripts/check_exports.py to compare with what other libraries compute: export_networks FOLDER [NETWORK …].

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "runtime/session.h"
#include "tests/models/small_model.h"
#include "train/export/onnx.h"
#include "train/optimizer.h"
#include "train/checkpoint/files.h"

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

void export_network(const std::string& name, const models::ModelOptions& options, const fs::path& file) {
  Session session({.device = "cpu", .streams = 1});
  const auto model = models::make_model(name, session, options);
  const Shape &image = options.image_shape, images{4, image[0], image[1], image[2]};
  train(session, *model, images);
  export_onnx(file.string() + ".onnx", *model, image);

  model->eval();
  const Array pixels = noise(images, 9);
  Step step = session.step();
  const NoGrad no_grad;
  const Tensor logits = (*model)(pixels);
  step.run();
  write(file.string() + ".images", pixels);
  write(file.string() + ".logits", logits.array());
}

}  // namespace

}  // namespace braid

int main(int count, char** arguments) {
  using namespace braid;
  const std::vector<std::string> given(arguments + std::min(count, 2), arguments + count);
  if (count < 2) {
    std::cerr << "usage: export_networks FOLDER [NETWORK …]\n";
    return 2;
  }
  try {
    for (const std::string& name : given.empty() ? models::model_names() : given) {
      models::ModelOptions options = small_model({32, 32, 3});
      const fs::path folder = arguments[1];
      export_network(name, options, folder / name);
      const std::vector<std::string> known = models::model_option_names(name);
      if (std::ranges::find(known, "stem") == known.end()) continue;
      options.image_shape = {97, 89, 3};  // odd, not square, and with windows that reach beyond the end
      options.stem = "image";
      export_network(name, options, folder / (name + "_large"));
    }
  } catch (const std::exception& error) {
    std::cerr << "export_networks: " << error.what() << '\n';
    return 1;
  }
}
