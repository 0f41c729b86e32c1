// Trains two networks at once: both record into the same step, and the scheduler runs independent nodes concurrently.
// Each network has its own data order, optimizer and random state, so it learns as it would alone.
//
//   concurrent_training [epochs] [folder of the data]

#include <braid/braid.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

namespace {

void train(int epochs, const std::string& folder) {
  const braid::TransformOptions normalise{.mean = {0.2860f}, .std = {0.3530f}};
  const auto images = braid::fashion_mnist(folder, braid::Split::train);  // loaded once, used by both
  braid::Loader large_batches(images, {.batch_size = 64, .shuffle = true, .seed = 1, .transform = normalise});
  braid::Loader small_batches(images, {.batch_size = 64, .shuffle = true, .seed = 2, .transform = normalise});

  braid::Session session({.device = "auto"});
  auto& resnet = session.add("resnet", braid::models::resnet20, {.classes = 10, .channels = 1});
  auto& lenet = session.add<braid::models::LeNet5>("lenet", {.classes = 10, .channels = 1, .image_size = 28});
  braid::SGD resnet_sgd(resnet.parameters(), {.lr = 0.1, .momentum = 0.9});
  braid::Adam lenet_adam(lenet.parameters(), {.lr = 1e-3});

  const auto learn = [](braid::Module& net, braid::Optimizer& optimizer, const braid::Batch& batch) {
    const braid::Tensor loss = braid::cross_entropy(net(batch.images), batch.labels);
    braid::backward(loss);
    optimizer.step();
    return loss;
  };
  for (int epoch = 0; epoch < epochs; ++epoch) {
    auto small = small_batches.begin();
    for (std::int64_t i = 0; const braid::Batch& batch : large_batches) {
      braid::Step step = session.step();  // one step for both
      const braid::Tensor resnet_loss = learn(resnet, resnet_sgd, batch);
      const braid::Tensor lenet_loss = learn(lenet, lenet_adam, *small);
      step.run();
      ++small;
      if (++i % 100 == 0) {
        std::cout << "step " << i << ": resnet20 " << resnet_loss.item() << ", lenet5 " << lenet_loss.item()
                  << std::endl;
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  train(argc > 1 ? std::atoi(argv[1]) : 1, argc > 2 ? argv[2] : "");
} catch (const std::exception& error) {
  std::cerr << "concurrent_training: " << error.what() << '\n';
  return 1;
}
