// Trains ResNet-20 on Fashion-MNIST on several ranks, which are processes: each has a part of every batch.
//
//   mpirun -n 4 parallel_training [steps] [folder of the data] [device]
//
// A batch is divided into four shards, so that 1, 2 and 4 ranks print the same, bit for bit.

#include <braid/braid.h>

#include <cstdlib>
#include <exception>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>

namespace {

void train(std::int64_t steps, const std::string& folder, const std::string& device_name) {
  const braid::Launch launch = braid::launch_from_environment();
  const braid::Device device = braid::rank_device(device_name, launch);  // "cuda" is a separate GPU for each rank
  const std::shared_ptr<braid::Communicator> ranks = braid::make_communicator(launch, device);
  braid::Loader batches(braid::fashion_mnist(folder, braid::Split::train),
                        {.batch_size = 64,
                         .shuffle = true,
                         .drop_last = true,
                         .rank = ranks->rank(),
                         .ranks = ranks->size(),
                         .seed = 1,
                         .transform = {.mean = {0.2860f}, .std = {0.3530f}}});

  braid::Session session({.device = braid::message(device), .parallel = {.communicator = ranks, .virtual_ranks = 4}});
  auto net = braid::models::resnet20(session, {.classes = 10, .channels = 1});
  braid::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});

  std::cout << std::setprecision(17);
  for (const braid::Batch& batch : batches) {
    braid::Step step = session.step();
    // What is placed so has the samples of all ranks. All else is recorded as on one rank.
    const braid::Tensor images = place(batch.images, braid::Layout::split);
    const braid::Tensor labels = place(batch.labels, braid::Layout::split);
    const braid::Tensor loss = braid::cross_entropy(net(images), labels);
    braid::backward(loss);
    sgd.step();
    step.run();
    const double mean = loss.item();  // over the samples of all ranks
    if (ranks->rank() == 0) std::cout << "loss " << mean << std::endl;
    if (--steps == 0) break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc > 1 ? std::atoi(argv[1]) : 100, argc > 2 ? argv[2] : "", argc > 3 ? argv[3] : "cpu");
  } catch (const std::exception& error) {
    std::cerr << "parallel_training: " << error.what() << '\n';
    return 1;
  }
}
