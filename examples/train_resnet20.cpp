// Trains ResNet-20 on Fashion-MNIST.
//
//   train_resnet20 [epochs] [folder of the data]

#include <braid/braid.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

namespace {

/// Share of the images that are given their right label.
double test_accuracy(braid::Session& session, braid::Module& net, braid::Loader& loader) {
  double correct = 0, images = 0;
  net.eval();
  for (const braid::Batch& batch : loader) {
    braid::Step step = session.step();
    const braid::NoGrad no_gradients;
    const braid::Tensor share = braid::accuracy(net(batch.images), batch.labels);
    step.run();
    correct += share.item() * static_cast<double>(batch.size());
    images += static_cast<double>(batch.size());
  }
  net.train();
  return correct / images;
}

void train(int epochs, const std::string& folder) {
  const braid::TransformOptions normalise{.mean = {0.2860f}, .std = {0.3530f}};
  braid::Loader batches(braid::fashion_mnist(folder, braid::Split::train),
                        {.batch_size = 64, .shuffle = true, .seed = 1, .transform = normalise});
  braid::Loader test_batches(braid::fashion_mnist(folder, braid::Split::test),
                             {.batch_size = 256, .transform = normalise});

  braid::Session session({.device = "auto"});
  auto net = braid::models::resnet20(session, {.classes = 10, .channels = 1});
  braid::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});
  const braid::LearningRate rate({.name = "one_cycle"}, sgd.lr(), batches.batches(), epochs * batches.batches());

  std::int64_t steps = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const braid::Batch& batch : batches) {
      sgd.set_lr(rate.at(steps));
      braid::Step step = session.step();  // from here on, ops record
      braid::Tensor loss = braid::cross_entropy(net(batch.images), batch.labels);
      braid::backward(loss);
      sgd.step();
      step.run();  // plans (once), executes, returns at once
      if (++steps % 100 == 0) std::cout << "step " << steps << ": loss " << loss.item() << std::endl;
    }
  }
  std::cout << "test accuracy " << test_accuracy(session, net, test_batches) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    std::cerr << "train_resnet20: " << error.what() << '\n';
    return 1;
  }
}
