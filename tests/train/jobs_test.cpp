// Several jobs that train in the same steps.

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <sstream>

#include "core/text/json.h"
#include "tests/data/files.h"
#include "tests/effort.h"
#include "tests/train/quiet_training.h"
#include "tests/train/single_job.h"
#include "train/checkpoint/checkpoint.h"
#include "train/inspect/bench/joint_bench.h"
#include "train/run/balance.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// Three small jobs with different batch sizes, optimizers, augmentation and lengths; one of them has dropout.
const std::string kJobs =
    "name: jobs\n"
    "device: cpu\n"
    "streams: 2\n"
    "intra_op_threads: 1\n"
    "data: {name: synthetic, size: 96, val_size: 24, image_size: 16, channels: 1, classes: 4}\n"
    "train: {epochs: 3, batch_size: 16, log_interval: 2}\n"
    "eval: {batch_size: 24}\n"
    "optimizer: {lr: 0.05}\n"
    "jobs:\n"
    "  - {name: first, model: {name: lenet5}, train: {batch_size: 24, drop_last: true}}\n"
    "  - {name: second, seed: 3, model: {name: lenet5}, optimizer: {name: adam}, train: {epochs: 2},\n"
    "     data: {augment: {flip: true, crop_padding: 2}}, steps_per_round: 2}\n"
    "  - {name: third, model: {name: squeezenet1_1, width: 0.125}, train: {batch_size: 32}}\n";

RunConfig config(const TemporaryFolder& folder, std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(), "output.root=" + folder.path());
  return read_run_config(parse_config(kJobs, "jobs.yaml"), overrides);
}

}  // namespace

TEST_CASE("a job's losses and weights are bit by bit the same alone and together with others") {
  const TemporaryFolder folder;
  const std::vector<std::string> cases[] = {
      {"streams=1"}, {"streams=3"}, {"streams=3", "precision=bf16", "jobs.1.precision=f16", "jobs.2.precision=f32"}};
  for (const std::vector<std::string>& overrides : cases) {
    if (kOnce && overrides.size() == 1) continue;
    CAPTURE(overrides.back());
    const RunResult result = finish(config(folder, overrides)).result;
    REQUIRE(result.jobs.size() == 3);
    CHECK_FALSE(result.failed());
    for (const TrainResult& joint : result.jobs) {
      CAPTURE(joint.name);
      // What the run folder says the job was, trained by itself.
      const TrainResult single = train(read_train_config(joint.folder / "config.yaml"));
      CHECK(single.steps == joint.steps);
      CHECK(single.train_loss == joint.train_loss);
      CHECK(single.val.loss == joint.val.loss);
      CHECK(timeless_metrics(single.folder) == timeless_metrics(joint.folder));
      CHECK(bytes_of(single.folder / "model.safetensors") == bytes_of(joint.folder / "model.safetensors"));
    }
    CHECK(result.jobs[0].steps == 3 * 4);
    CHECK(result.jobs[1].steps == 2 * 6);
    CHECK(result.jobs[2].steps == 3 * 3);
  }
}

TEST_CASE("a job that diverges stops with its message, and the others continue") {
  const TemporaryFolder folder;
  const auto [result, text] = finish(config(folder, {"jobs.first.optimizer.lr=1e30"}));
  CHECK(result.failed());
  CHECK(contains(result.jobs[0].failure_text(), "[train] the loss is "));
  CHECK(contains(text, "first: failed: [train] the loss is "));
  CHECK(contains(text, "\nfirst: failed after "));
  CHECK(contains(text, "\nsecond: done after 12 steps; val loss "));
  const std::vector<Json> records = metrics_of(result.jobs[0].folder);
  REQUIRE(records.size() >= 2);
  CHECK(records[records.size() - 2]["event"] == "failed");
  CHECK(records.back()["event"] == "cause");
  CHECK(result.jobs[0].failure_text() ==
        message(records[records.size() - 2]["message"].text(), "; ", records.back()["message"].text()));
  const auto failures = [](const RunResult& run) {
    return std::ranges::count_if(metrics_of(run.folder),
                                 [](const auto& record) { return record["event"] == "failed"; });
  };
  CHECK(failures(result) == 1);  // in the metrics of the run, too

  const RunResult healthy = finish(config(folder)).result;
  CHECK(failures(healthy) == 0);
  const Json memory = metrics_of(healthy.folder).front();
  CHECK(memory["event"] == "memory");
  CHECK(memory["joint_arena_bytes"].as_int64() > 0);
  CHECK(memory["single_arena_bytes"].as_int64() > 0);
  for (const std::size_t i : {1u, 2u}) {
    CHECK(result.jobs[i].failure == nullptr);
    CHECK(result.jobs[i].val.loss == healthy.jobs[i].val.loss);
  }
}

namespace {

/// Samples of another dataset. After the first `good` ones, labels are impossible, but the loader believes them, and
/// training ends in a kernel.
class Faulty final : public ImageDataset {
 public:
  Faulty(std::shared_ptr<const ImageDataset> dataset, int good) : dataset_(std::move(dataset)), good_(good) {}
  std::int64_t size() const override { return dataset_->size(); }
  Shape image_shape() const override { return dataset_->image_shape(); }
  int classes() const override { return std::exchange(lying_, false) ? 1000 : dataset_->classes(); }
  std::string name() const override { return dataset_->name(); }
  Image image(std::int64_t index) const override { return dataset_->image(index); }
  int label(std::int64_t index) const override {
    lying_ = good_-- <= 0;
    return lying_ ? 900 : dataset_->label(index);
  }

 private:
  static inline thread_local bool lying_ = false;  // in the next call of classes()
  std::shared_ptr<const ImageDataset> dataset_;
  mutable std::atomic<int> good_;
};

}  // namespace

TEST_CASE("a fault in a joint step ends the job whose node it was, and the others lose nothing") {
  const TemporaryFolder folder;
  std::string interval;
  SUBCASE("after checkpoints of epochs") { interval = "0"; }
  SUBCASE("after a checkpoint of every second step") { interval = "2"; }
  const RunConfig settings =
      config(folder, {"jobs.first.steps_per_round=1", "jobs.second.steps_per_round=1", "jobs.third.steps_per_round=1",
                      "jobs.second.data.size=320", "checkpoint.every_n_steps=" + interval});
  const RunResult healthy = finish(settings).result;
  DatasetPool datasets;
  const TrainConfig& second = settings.jobs[1].training;
  datasets.put(second, Split::train, std::make_shared<Faulty>(datasets.get(second, Split::train), 190));
  Trainer trainer(settings, std::move(datasets));
  const Finished ran = finish(trainer);
  const RunResult& result = ran.result;
  CAPTURE(ran.output);
  CAPTURE(result.jobs[1].failure_text());
  // Found by the loss or by the accuracy, which may run at the same time.
  CHECK(contains(ran.output, "a step of several jobs failed: ["));
  CHECK(contains(result.jobs[1].failure_text(), "] expected labels in [0, 4), got 900"));
  CHECK(metrics_of(result.jobs[1].folder).back()["event"] == "failed");
  for (const std::size_t i : {0u, 2u}) {
    CHECK(result.jobs[i].failure_text() == "");
    CHECK((timeless_metrics(result.jobs[i].folder) == timeless_metrics(healthy.jobs[i].folder)));
    CHECK((bytes_of(result.jobs[i].folder / "model.safetensors") ==
           bytes_of(healthy.jobs[i].folder / "model.safetensors")));
  }
}

TEST_CASE("a job whose data is missing fails alone, and its run folder says so") {
  const TemporaryFolder folder;
  const RunResult result =
      finish(config(folder, {"jobs.second.data={name: fashion_mnist, root: " + folder.path() + "/nowhere}"})).result;
  CHECK(result.failed());
  CHECK(contains(result.jobs[1].failure_text(), "nowhere"));
  CHECK(result.jobs[1].steps == 0);
  CHECK(metrics_of(result.jobs[1].folder).back()["event"] == "failed");
  CHECK(std::filesystem::exists(result.jobs[1].folder / "config.yaml"));
  CHECK(result.jobs[0].steps == 3 * 4);
  CHECK(result.jobs[2].steps == 3 * 3);
}

TEST_CASE("Ctrl-C ends all jobs after the round, each with its model saved") {
  const TemporaryFolder folder;
  const auto [result, text] =
      finish(config(folder, {"train.epochs=1000", "jobs.second.train.epochs=1000"}), {}, "third: epoch");
  CHECK(result.interrupted == SIGINT);
  for (const TrainResult& job : result.jobs) {
    CHECK(job.interrupted);
    const std::string line = message(job.name, ": interrupted after step ", job.steps, "; the model is saved");
    REQUIRE(contains(text, line));
    CHECK(text.find(job.name + ": interrupted", text.find(line) + 1) == std::string::npos);  // once
    CHECK(metrics_of(job.folder).back() == Json{{"event", "interrupted"}, {"step", job.steps}});
    CHECK_NOTHROW(evaluate_checkpoint(read_train_config(job.folder / "config.yaml"), job.folder / "model.safetensors"));
  }
}

TEST_CASE("a data set is loaded once for all jobs that use it") {
  const TemporaryFolder folder;
  const RunConfig run = config(folder, {"jobs.third.data.size=64"});
  DatasetPool datasets;
  const auto first = datasets.get(run.jobs[0].training, Split::train);
  CHECK(datasets.get(run.jobs[0].training, Split::train) == first);
  CHECK(datasets.get(run.jobs[0].training, Split::val) != first);
  CHECK(datasets.get(run.jobs[1].training, Split::train) != first);  // another seed, so other images
  CHECK(datasets.get(run.jobs[2].training, Split::train) != first);  // another size
  TrainConfig augmented = run.jobs[0].training;
  augmented.data.augment.flip = true;
  CHECK(datasets.get(augmented, Split::train) == first);
  TrainConfig some = run.jobs[0].training;
  some.data.only_classes = {2, 0};
  const auto subset = datasets.get(some, Split::train);
  CHECK(subset->classes() == 2);
  CHECK(subset->image(0).pixels.data() == first->image(0).pixels.data());  // labels go 0, 1, 2, …, so this is class 0
  CHECK(subset->label(0) == 1);
}

TEST_CASE("small jobs take as many steps per round as fit alongside the longest job") {
  using Steps = std::vector<std::int64_t>;
  const auto balanced = [](std::vector<double> seconds, std::vector<int> fixed) {
    return balanced_steps(seconds, fixed);
  };
  CHECK(balanced({0.1, 0.05, 0.024}, {0, 0, 0}) == Steps{1, 2, 4});
  CHECK(balanced({0.1, 0.09}, {0, 0}) == Steps{1, 1});
  CHECK(balanced({0.1, 0.001}, {0, 0}) == Steps{1, 16});
  CHECK(balanced({0.1, 0.05, 0.05}, {2, 0, 3}) == Steps{2, 4, 3});
  CHECK(balanced({0.1, 0}, {0, 0}) == Steps{1, 1});
}

TEST_CASE("a bench of jobs prints the one ratio that it measured, with its spread") {
  JointBench::Times times;
  times.turns = 7;
  times.together_seconds = 0.47669;
  times.plan = "serial on 1 stream";
  times.speedup = {1.0789, 1.1432, 1.1711};
  const std::string text = to_text(times);
  CHECK(
      text.starts_with("together           476.69 ms per round (median of 7), serial on 1 stream\n"
                       "one after another  takes 1.14 times as long (quartiles 1.08 to 1.17)\n"));
  const auto json = parse_json(to_json(times));
  CHECK(json["speedup"] == 1.1432);
  CHECK(json["speedup_quartiles"] == Json::array({1.0789, 1.1711}));
}

TEST_CASE("the table of a joint benchmark fits a terminal of 80 columns") {
  JointBench::Times times;
  times.jobs.push_back({.name = "mobilenet_v2",
                        .batch_size = 1024,
                        .steps_per_round = 16,
                        .alone_seconds = 1.23456,
                        .alone_arena_bytes = std::size_t{16} << 30,
                        .images_per_second_alone = 123456.7,
                        .images_per_second_together = 123456.7});
  std::istringstream lines(to_text(times));
  std::string table;
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.size() <= 80);
    if (line.starts_with("mobilenet_v2")) table = line;
  }
  CHECK(table == "mobilenet_v2     16   1024    1234.56          123457    123457     16384.0");
}
