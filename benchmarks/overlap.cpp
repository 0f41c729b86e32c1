// Measures the gain of communicating while gradients are computed: two ranks, which are threads of one core each, on a
// link made so slow that communication takes as long as computing. The plan that overlaps both and the serial plan
// train in alternation. Prints JSON, which benchmarks/overlap.py makes a table of.
//
//   bench_overlap [TURNS]

#include <chrono>
#include <functional>
#include <iostream>
#include <thread>

#include "core/comm/local/local_ranks.h"
#include "core/text/json.h"
#include "models/registry.h"
#include "runtime/session.h"
#include "train/optimizer.h"

namespace {

using namespace braid;

constexpr int kRanks = 2, kWarmUp = 3, kStepsPerTurn = 5;

struct Network {
  std::string name;
  std::int64_t batch;  ///< samples of both ranks
  Shape image;
};

/// A training on both ranks, from which turns of steps are asked.
class Training {
 public:
  Training(const Network& network, const Link& link, const std::string& policy, std::int64_t bucket_bytes)
      : ranks_(kRanks, link) {
    on_all([&](int rank) {
      // Shares no state with the other rank but the communicator.
      Rank& own = own_[rank];
      own.session = std::make_unique<Session>(SessionOptions{
          .device = "cpu",
          .streams = 1,
          .policy = policy,
          .threads = 1,
          .autotune = true,
          .parallel = {.communicator = {std::shared_ptr<void>(), &ranks_.of(rank)}, .bucket_bytes = bucket_bytes}});
      own.model = models::make_model(network.name, *own.session, {.classes = 10, .image_shape = network.image});
      own.sgd = std::make_unique<SGD>(own.model->parameters(), SGD::Options{.lr = 1e-3, .momentum = 0.9});
      const std::int64_t samples = network.batch / kRanks;
      own.images = Array(DType::f32, {samples, network.image[0], network.image[1], network.image[2]});
      for (float& pixel : own.images.as<float>()) pixel = 0.5F;
      own.labels = Array(DType::i32, {samples});
    });
    run(kWarmUp);
  }

  /// Seconds of a step.
  double run(int steps) {
    const auto begin = std::chrono::steady_clock::now();
    on_all([&](int rank) {
      Rank& own = own_[rank];
      for (int i = 0; i < steps; ++i) {
        Step step = own.session->step();
        const Tensor labels = place(own.labels, Layout::split);
        const TrainingStep training = own.model->training_step(place(own.images, Layout::split), labels, labels);
        backward(training.objectives.front().loss);
        own.sgd->step();
        step.run();
        own.predicted = 1e-6 * step.plan().makespan;
      }
      own.session->synchronize();
    });
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / steps;
  }

  double predicted() const { return own_[0].predicted; }
  std::int64_t parameter_bytes() const { return 4 * own_[0].model->parameter_count(); }

 private:
  struct Rank {
    std::unique_ptr<Session> session;
    std::unique_ptr<Module> model;
    std::unique_ptr<SGD> sgd;
    Array images, labels;
    double predicted = 0;
  };

  static void on_all(const std::function<void(int)>& action) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(action, rank);
  }

  LocalRanks ranks_;
  Rank own_[kRanks];
};

Json compare(const Network& network, int turns) {
  // Communication costs nothing: the rest is computing.
  Training alone(network, {}, "serial", std::int64_t{1} << 30);
  const double computing = alone.run(2 * kStepsPerTurn);
  const auto bytes = static_cast<double>(alone.parameter_bytes());  // bytes that a rank sends: half of them, twice
  const Link link{.bytes_per_second = bytes / computing};
  Training serial(network, link, "serial", alone.parameter_bytes() / 8);
  Training overlapped(network, link, "critical_path", alone.parameter_bytes() / 8);
  std::vector<double> apart, together;
  for (int turn = 0; turn < turns; ++turn) {
    apart.push_back(serial.run(kStepsPerTurn));
    together.push_back(overlapped.run(kStepsPerTurn));
  }
  return {{"network", network.name},
          {"computing_seconds", computing},
          {"serial_seconds", apart},
          {"overlapped_seconds", together},
          {"serial_predicted", serial.predicted()},
          {"overlapped_predicted", overlapped.predicted()}};
}

}  // namespace

int main(int count, char** arguments) {
  const int turns = count > 1 ? std::atoi(arguments[1]) : 9;
  try {
    Json rows = Json::array();
    for (const Network& network : {Network{"resnet20", 64, {32, 32, 3}}, Network{"googlenet", 16, {64, 64, 3}},
                                   Network{"vgg16", 16, {32, 32, 3}}}) {
      rows.push_back(compare(network, turns));
    }
    std::cout << rows.dump() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "bench_overlap: " << error.what() << '\n';
    return 1;
  }
}
