// Trains a network and writes it to a file and back, in a project that has headers named like all of Braid's.

#include <braid/braid.h>
#include <braid/op.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#define OWN_PROJECT
#include "core/base/error.h"

namespace {

static_assert(std::string_view(own_header) == "core/base/error.h");

/// Labels are 0 and 1, bright images are of class 1.
class Lamps : public braid::Dataset {
 public:
  std::int64_t size() const override { return 8; }
  braid::Sample sample(std::int64_t index, braid::Generator& random) const override {
    braid::Array image(braid::DType::f32, {28, 28, 1});
    for (float& pixel : image.as<float>()) pixel = random.uniform() + static_cast<float>(index % 2);
    return {image, braid::Array::scalar(static_cast<std::int32_t>(index % 2))};
  }
};

constexpr braid::models::LeNetOptions kOptions{.classes = 2, .channels = 1, .image_size = 28};

float loss_of(braid::Session& session, braid::Module& net, const braid::Batch& batch, braid::Optimizer* optimizer) {
  braid::Step step = session.step();
  const braid::Tensor loss = braid::cross_entropy(net(batch[0]), batch[1]);
  if (optimizer != nullptr) {
    braid::backward(loss);
    optimizer->step();
  }
  step.run();
  return static_cast<float>(loss.item());
}

}  // namespace

int main() {
  braid::Loader loader(std::make_shared<Lamps>(), {.batch_size = 8, .shuffle = true});
  const braid::Batch batch = *loader.begin();

  braid::Session session({.device = "cpu"});
  braid::models::LeNet5 net(session, kOptions);
  braid::SGD sgd(net.parameters(), {.lr = 0.01});
  const float first = loss_of(session, net, batch, &sgd);
  const float trained = loss_of(session, net, batch, nullptr);

  const auto file = std::filesystem::temp_directory_path() / ("braid_package_user_" + std::to_string(getpid()));
  braid::save_checkpoint(file, session, net.tensors());
  braid::Session other({.device = "cpu", .seed = 2});
  braid::models::LeNet5 copy(other, kOptions);
  braid::load_checkpoint(file, other, copy.tensors());
  std::filesystem::remove(file);
  const float read = loss_of(other, copy, batch, nullptr);

  std::cout << "loss " << first << ", then " << trained << ", of the copy " << read << '\n';
  return trained < first && read == trained ? EXIT_SUCCESS : EXIT_FAILURE;
}
