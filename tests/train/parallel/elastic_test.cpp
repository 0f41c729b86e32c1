// Elastic averaging: ranks that train by themselves, and a centre.

#include <doctest/doctest.h>

#include "autograd/functions.h"
#include "core/comm/local/local_ranks.h"
#include "models/layers/layers.h"
#include "runtime/session.h"
#include "tests/core/on_all.h"
#include "tests/data/files.h"
#include "tests/effort.h"
#include "tests/noise.h"
#include "tests/train/quiet_training.h"
#include "tests/train/single_job.h"
#include "train/checkpoint/checkpoint.h"
#include "train/optimizer.h"
#include "train/weight_average.h"

using namespace braid;
using namespace braid::testing;

namespace {

constexpr std::int64_t kOwnImages = 6;  // of a rank in a step
constexpr int kElasticSteps = 5, kPeriod = 2;

/// A small network and its optimizer.
struct Worker {
  Session session;
  Sequential network{session};
  std::optional<SGD> sgd;

  explicit Worker(const ParallelOptions& parallel = {})
      : session({.device = "cpu", .streams = 1, .threads = 1, .parallel = parallel}) {
    network.append<ConvLayer>(3, 4, 3, Conv2dOptions{.padding = 1});
    network.append<BatchNormLayer>(4, Activation::relu);
    network.append<FunctionLayer>(global_avg_pool);
    network.append<LinearLayer>(4, 5);
    sgd.emplace(network.parameters(), SGD::Options{.lr = 0.2, .momentum = 0.9});
  }

  /// Trains on the samples of a rank, and then exchanges with the others if there is a centre.
  void train(int k, int rank, WeightAverage* centre = nullptr) {
    const auto [images, labels] = random_samples(static_cast<std::uint64_t>(k), rank * kOwnImages, kOwnImages, 6, 5);
    Step step = session.step();
    backward(cross_entropy(network(place(images, Layout::split)), place(labels, Layout::split)));
    sgd->step();
    if (centre != nullptr) centre->record_elastic();
    step.run();
  }

  std::vector<double> values(std::span<Parameter* const> tensors) {
    std::vector<double> all;
    for (Parameter* tensor : tensors) {
      const Array array = session.read(*tensor);
      const auto elements = array.as<float>();
      all.insert(all.end(), elements.begin(), elements.end());
    }
    return all;
  }

  void set_values(std::span<Parameter* const> tensors, const std::vector<double>& all) {
    auto from = all.begin();
    for (Parameter* tensor : tensors) {
      Array array(DType::f32, tensor->shape());
      for (float& element : array.as<float>()) element = static_cast<float>(*from++);
      session.write(*tensor, array);
    }
  }
};

/// What ranks have at the end: their tensors, the moments of their optimizers, and the centre.
struct Models {
  std::vector<std::vector<double>> tensors, moments, centres;

  explicit Models(int ranks)
      : tensors(static_cast<std::size_t>(ranks)), moments(tensors.size()), centres(tensors.size()) {}
};

Models trained_on_ranks(int count, double beta) {
  Models models(count);
  const auto train = [&](int rank, const ParallelOptions& parallel) {
    Worker worker(parallel);
    WeightAverage centre(worker.session, worker.network.tensors(), 1 - beta);
    centre.start();
    for (int k = 0; k < kElasticSteps; ++k) worker.train(k, rank, (k + 1) % kPeriod == 0 ? &centre : nullptr);
    const auto at = static_cast<std::size_t>(rank);
    models.tensors[at] = worker.values(worker.network.tensors());
    models.moments[at] = worker.values(worker.sgd->states());
    models.centres[at] = worker.values(centre.averages());
  };
  if (count == 1) {
    train(0, {.average_every = kPeriod, .elastic_beta = beta});
    return models;
  }
  const auto ranks = std::make_shared<LocalRanks>(count);
  const auto errors = on_ranks(*ranks, [&](Communicator& own) {
    train(own.rank(), {.communicator = {ranks, &own}, .average_every = kPeriod, .elastic_beta = beta});
  });
  REQUIRE(errors == std::vector<std::string>(errors.size()));
  return models;
}

/// Trains models without ranks, and applies the equations of the paper to their tensors.
Models trained_by_loops(int count, double beta) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < count; ++i) workers.push_back(std::make_unique<Worker>());
  std::vector<double> centre = workers.front()->values(workers.front()->network.tensors());
  for (int k = 0; k < kElasticSteps; ++k) {
    for (int rank = 0; rank < count; ++rank) workers[static_cast<std::size_t>(rank)]->train(k, rank);
    if ((k + 1) % kPeriod != 0) continue;
    std::vector<double> moved = centre;
    for (const auto& worker : workers) {
      const double alpha = beta / count;
      std::vector<double> x = worker->values(worker->network.tensors());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double difference = x[i] - centre[i];
        x[i] -= alpha * difference;
        moved[i] += alpha * difference;
      }
      worker->set_values(worker->network.tensors(), x);
    }
    centre = moved;
  }
  Models models(count);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    models.tensors[i] = workers[i]->values(workers[i]->network.tensors());
    models.moments[i] = workers[i]->values(workers[i]->sgd->states());
    models.centres[i] = centre;
  }
  return models;
}

/// |a − b| / |b|.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

TrainConfig config_of(const TemporaryFolder& folder, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all{"output.root=" + folder.path()};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return parse_train_config(
      "name: tiny\n"
      "device: cpu\n"
      "streams: 1\n"
      "model: {name: lenet5}\n"
      "data: {name: synthetic, size: 80, val_size: 24, image_size: 16, channels: 1, classes: 4}\n"
      "train: {epochs: 2, batch_size: 16, log_interval: 1}\n"
      "optimizer: {lr: 0.05, momentum: 0.9}\n"
      "parallel: {average_every: 3, elastic_beta: 0.9}\n",
      "tiny.yaml", all);
}

/// The values of a tensor in a file.
std::vector<float> values_of(const SafeTensors& file, const std::string& name) {
  const Array array = file.array(name);
  const auto elements = array.as<float>();
  return {elements.begin(), elements.end()};
}

}  // namespace

TEST_CASE("ranks and their centre move as the equations of elastic averaging say, and moments stay with their rank") {
  for (const int ranks : {1, 2, 4}) {
    for (const double beta : {0.3, 0.9}) {
      CAPTURE(ranks);
      CAPTURE(beta);
      const Models models = trained_on_ranks(ranks, beta), expected = trained_by_loops(ranks, beta);
      for (std::size_t i = 0; i < models.tensors.size(); ++i) {
        CHECK(distance(models.tensors[i], expected.tensors[i]) < 1e-5);
        CHECK(distance(models.moments[i], expected.moments[i]) < 1e-4);
        CHECK(distance(models.centres[i], expected.centres[i]) < 1e-5);
        CHECK(models.centres[i] == models.centres[0]);  // bit for bit
        if (i > 0) CHECK(distance(models.tensors[i], models.tensors[0]) > 1e-3);
      }
    }
  }
}

TEST_CASE("options of elastic averaging without meaning are errors that say what was expected") {
  const auto error = [](const ParallelOptions& options) { return error_of<Error>([&] { check_parallel(options); }); };
  CHECK(error({.average_every = 2, .elastic_beta = 0.9}).empty());
  for (const double beta : {-0.1, 1.0, 2.0}) {
    CHECK(error({.average_every = 2, .elastic_beta = beta})
              .starts_with("[parallel] expected an elastic_beta in [0, 1), got "));
  }
  CHECK(error({.elastic_beta = 0.9}) ==
        "[parallel] elastic_beta says how ranks average: set average_every to the steps between averages, got 0");
  const TemporaryFolder folder;
  CHECK(error_of<ConfigError>([&] {
          config_of(folder, {"train.ema_decay=0.9"});
        }).ends_with(": expected 0 with parallel.elastic_beta, whose centre is validated and saved"));
  CHECK(!error_of<ConfigError>([&] { config_of(folder, {"parallel.elastic_beta=1"}); }).empty());
}

TEST_CASE("a training with elastic averaging validates and saves the centre, and keeps what it continues with") {
  const TemporaryFolder folder;
  const TrainConfig config = config_of(folder);
  const TrainResult result = train(config);
  const auto checkpoint = CheckpointFolder::path_of(result.folder / "checkpoints", 10);
  const SafeTensors state(checkpoint), model(result.folder / "model.safetensors");
  for (const std::string name : {"conv1.weight", "fc3.bias"}) {
    CHECK(values_of(model, name) == values_of(state, message(kTrainingPrefix, WeightAverage::kPrefix, name)));
    CHECK(values_of(model, name) != values_of(state, name));
  }
  CHECK(evaluate_checkpoint(config, checkpoint).loss == result.val.loss);
  for (const int step : {2, 4, 7}) {  // of ten; models are averaged after 3, 5, 6, 9 and 10
    CAPTURE(step);
    const std::string at = message("step ", step, "/10");
    const RunResult interrupted = finish(as_run(config), {}, at).result;
    REQUIRE(interrupted.interrupted == SIGINT);
    static_cast<void>(finish(as_run(config), interrupted.folder));
    CHECK((bytes_of(interrupted.folder / "model.safetensors") == bytes_of(result.folder / "model.safetensors")));
  }
}
