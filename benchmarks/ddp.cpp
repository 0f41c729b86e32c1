// A rank of compare_ddp.py: trains on request, answers in lines of JSON like `braid bench --serve`. Started by mpirun,
// which hands the lines to all ranks.
//
//   bench_ddp link BYTES                          measures the link for all-reduces of BYTES, and ends
//   bench_ddp NETWORK BATCH LR DATA alone            trains without the other ranks
//   bench_ddp NETWORK BATCH LR DATA POLICY COSTS LATENCY BANDWIDTH TOGETHER
//
//   run N          N times as many steps as are planned TOGETHER, and the time of N of them
//   losses N       N steps without dropout, with the loss of each
//   setting        what the plan predicts for a step
//   weights FILE   writes the weights as torchvision names them
//   profile FILE   measures the nodes of a step for COSTS
//
// BATCH is that of all ranks; DATA has the bytes of some batches of 32x32 images and then those of their labels.

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <thread>

#include "core/base/median.h"
#include "core/text/json.h"
#include "models/layers/layers.h"
#include "models/registry.h"
#include "runtime/profile/profiler.h"
#include "runtime/session.h"
#include "train/export/weights.h"
#include "train/optimizer.h"

namespace {

using namespace braid;
using Clock = std::chrono::steady_clock;

const Shape kImage{32, 32, 3};
constexpr std::int64_t kClasses = 10;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// The ranks of MPI with a measured link, in place of the one that MPI's communicator assumes.
class Shaped final : public Communicator {
 public:
  Shaped(std::unique_ptr<Communicator> ranks, const Link& link) : ranks_(std::move(ranks)), link_(link) {}
  int rank() const override { return ranks_->rank(); }
  int size() const override { return ranks_->size(); }
  std::string_view name() const override { return ranks_->name(); }
  Link link() const override { return link_; }
  void run(const CollectiveCall& call, const void* source, void* target, const LaunchContext& where) override {
    ranks_->run(call, source, target, where);
  }
  void abort(const std::string& reason) override { ranks_->abort(reason); }

 private:
  std::unique_ptr<Communicator> ranks_;
  Link link_;
};

/// Latency and bandwidth that explain the times of an all-reduce of `bytes` and of one as large as a bucket, a 32nd
/// (core/comm/collective_call.h). Smaller ones need fewer messages: MPI sends them without asking first.
Json measure_link(Communicator& ranks, std::int64_t bytes) {
  std::vector<float> data(static_cast<std::size_t>(bytes) / sizeof(float));
  // Measures as in training, where the thread that communicates shares its core with one that computes.
  std::jthread computing([](const std::stop_token& stop) {
    for (volatile std::int64_t work = 0; !stop.stop_requested();) work = work + 1;
  });
  const auto time = [&](std::int64_t count, int times) {
    std::vector<double> seconds;
    for (int i = 0; i < times; ++i) {
      ranks.barrier();
      const Clock::time_point begin = Clock::now();
      ranks.all_reduce(data.data(), count, DType::f32, {});
      seconds.push_back(seconds_since(begin));
    }
    return median(seconds);
  };
  constexpr int kPart = 32;
  const auto count = static_cast<std::int64_t>(data.size());
  const double small = time(count / kPart, kPart), large = time(count, 5);
  const double n = ranks.size(), sent = 2 * (n - 1) / n * static_cast<double>(bytes);
  const double bandwidth = sent * (1 - 1.0 / kPart) / (large - small);
  return {{"latency", std::max(0.0, small - sent / kPart / bandwidth) / (2 * (n - 1))}, {"bandwidth", bandwidth}};
}

struct Batch {
  Array images, labels;
};

/// The rank's part of every batch.
std::vector<Batch> read_batches(const std::string& path, std::int64_t batch, int rank, int ranks) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<unsigned char> data(std::istreambuf_iterator<char>(file), {});
  const std::int64_t image = kImage.size(), samples = static_cast<std::int64_t>(data.size()) / (image + 1);
  const std::int64_t part = batch / ranks;
  BRAID_CHECK(samples >= batch, DataError, path, ": expected at least a batch of ", batch);
  std::vector<Batch> batches;
  for (std::int64_t first = rank * part; first < samples; first += batch) {
    Batch& own =
        batches.emplace_back(Array(DType::f32, {part, kImage[0], kImage[1], kImage[2]}), Array(DType::i32, {part}));
    auto pixel = data.begin() + first * image, label = data.begin() + samples * image + first;
    for (float& value : own.images.as<float>()) value = (static_cast<float>(*pixel++) - 127.5F) / 64;
    for (std::int32_t& value : own.labels.as<std::int32_t>()) value = *label++;
  }
  return batches;
}

class Training {
 public:
  Training(const std::string& network, double lr, std::vector<Batch> batches, const SessionOptions& options,
           std::size_t together)
      : batches_(std::move(batches)),
        together_(together),
        session_(options),
        model_(models::make_model(network, session_, {.classes = kClasses, .image_shape = kImage})),
        sgd_(model_->parameters(), {.lr = lr, .momentum = 0.9}) {}

  Json answer(const std::string& line) {
    std::istringstream words(line);
    std::string request, file;
    words >> request;
    if (request == "setting")
      return {{"makespan", predicted_}, {"buckets", buckets_}, {"bytes", 4 * model_->parameter_count()}};
    if (request == "weights" || request == "profile") {
      words >> file;
      if (request == "profile") return profile(file);
      if (rank(session_.parallel()) == 0) export_weights(file, *model_, kImage);
      return Json::object();
    }
    std::size_t steps = 0;
    words >> steps;
    set_dropout(request == "run");
    std::vector<double> losses;
    const Clock::time_point begin = Clock::now();
    if (request == "losses") {
      while (losses.size() < steps) run(losses, std::min(together_, steps - losses.size()));
      return losses;
    }
    for (std::size_t i = 0; i < steps; ++i) run(losses, together_);
    return {{"seconds", seconds_since(begin) / static_cast<double>(together_)}, {"host_seconds", 0}};
  }

 private:
  /// Records several steps as one.
  void run(std::vector<double>& losses, std::size_t together) {
    Step step = session_.step();
    std::vector<Tensor> recorded;
    while (recorded.size() < together) recorded.push_back(record(losses.size() + recorded.size()));
    step.run();
    for (const Tensor& loss : recorded) losses.push_back(loss.item());
    const auto steps = static_cast<std::int64_t>(together);
    predicted_ = 1e-6 * step.plan().makespan / static_cast<double>(steps);
    buckets_ =
        std::ranges::count_if(step.graph().nodes(), [](const Node& node) { return node.op->name() == "all_reduce"; }) /
        steps;
  }

  Tensor record(std::size_t number) {
    RandomState random{.step = static_cast<std::int32_t>(number)};
    const Context::RandomScope scope(session_, random);
    const Batch& batch = batches_[number % batches_.size()];
    const Tensor labels = place(batch.labels, Layout::split);
    const TrainingStep training = model_->training_step(place(batch.images, Layout::split), labels, labels);
    backward(training.objectives.front().loss);
    sgd_.step();
    return training.objectives.front().loss;
  }

  void set_dropout(bool on) {
    for (Module* module : model_->modules()) {
      if (dynamic_cast<DropoutLayer*>(module) != nullptr) module->train(on);
    }
  }

  /// Within steps, while the other rank does the same, so that caches and memory are as in a training.
  Json profile(const std::string& file) {
    Profiler profiler(session_);
    for (std::size_t i = 0; i < 9; ++i) {
      Step step = session_.step();
      record(i);
      profiler.run(step);
    }
    if (launch_from_environment().rank == 0) write_profile(file, profiler.profile());
    return Json::object();
  }

  std::vector<Batch> batches_;
  const std::size_t together_;
  Session session_;
  std::unique_ptr<Module> model_;
  SGD sgd_;
  double predicted_ = 0;
  std::int64_t buckets_ = 0;
};

void serve(std::span<char*> arguments) {
  const Launch launch = launch_from_environment();
  const auto print = [&](const Json& answer) {
    if (launch.rank == 0) std::cout << answer.dump_sorted() << std::endl;
  };
  if (arguments[0] == std::string("link")) {
    return print(measure_link(*make_communicator(launch), std::atoll(arguments[1])));
  }
  SessionOptions options{.device = "cpu", .streams = 1, .policy = "serial", .intra_op_threads = 1, .threads = 1};
  const bool is_alone = arguments[4] == std::string("alone");
  const std::size_t together = is_alone ? 1 : static_cast<std::size_t>(std::atoll(arguments[8]));
  if (!is_alone) {
    options.policy = arguments[4];
    options.profile = arguments[5];
    const Link link{.latency_seconds = std::atof(arguments[6]), .bytes_per_second = std::atof(arguments[7])};
    options.parallel.communicator = std::make_shared<Shaped>(make_communicator(launch), link);
  }
  Training training(arguments[0], std::atof(arguments[2]),
                    read_batches(arguments[3], std::atoll(arguments[1]), launch.rank, launch.size), options, together);
  print({{"ready", true}});
  for (std::string line; std::getline(std::cin, line);) print(training.answer(line));
}

}  // namespace

int main(int count, char** arguments) {
  const std::span given(arguments + 1, arguments + count);
  try {
    BRAID_CHECK(given.size() == 2 || given.size() == 5 || given.size() == 9, Error, "run benchmarks/compare_ddp.py");
    serve(given);
  } catch (const std::exception& error) {
    std::cerr << "bench_ddp: " << error.what() << '\n';
    return 1;
  }
}
