// A training that was interrupted and resumed against one that was not.

#include <doctest/doctest.h>

#include <csignal>
#include <iostream>
#include <sstream>

#include "core/text/json.h"
#include "tests/data/files.h"
#include "tests/effort.h"
#include "tests/train/quiet_training.h"

using namespace braid;
using namespace braid::testing;

namespace {

namespace fs = std::filesystem;

/// LeNet with Adam of two groups in f16, on augmented images: all that a checkpoint has to hold; an incomplete batch in
/// each epoch.
const std::string kOneJob =
    "name: tiny\n"
    "device: cpu\n"
    "streams: 2\n"
    "intra_op_threads: 1\n"
    "precision: f16\n"
    "model: {name: lenet5}\n"
    "data: {name: synthetic, size: 72, val_size: 24, image_size: 16, channels: 1, classes: 4,\n"
    "       augment: {flip: true, crop_padding: 2, salt_and_pepper: 0.1}}\n"
    "train: {epochs: 3, batch_size: 16, log_interval: 1, accumulate: 2, clip_norm: 0.5, ema_decay: 0.9}\n"
    "optimizer: {name: adam, lr: 0.003, groups: [{parameters: fc1.*, lr: 0.001, weight_decay: 0.1}]}\n"
    "schedule: {name: one_cycle}\n";

/// Jobs of different lengths, one of them with dropout.
const std::string kThreeJobs =
    "name: jobs\n"
    "device: cpu\n"
    "streams: 2\n"
    "intra_op_threads: 1\n"
    "data: {name: synthetic, size: 96, val_size: 24, image_size: 16, channels: 1, classes: 4}\n"
    "train: {epochs: 3, batch_size: 16, log_interval: 1}\n"
    "optimizer: {lr: 0.05}\n"
    "jobs:\n"
    "  - {name: first, model: {name: lenet5}, train: {epochs: 1}}\n"
    "  - {name: second, seed: 3, model: {name: lenet5}, optimizer: {name: adam}, steps_per_round: 2}\n"
    "  - {name: third, model: {name: squeezenet1_1, width: 0.125}, train: {batch_size: 32}}\n";

RunConfig config_of(const std::string& yaml, const fs::path& root, std::vector<std::string> overrides = {}) {
  overrides.push_back("output.root=" + root.string());
  return read_run_config(parse_config(yaml, "test.yaml"), overrides);
}

/// The tensors of the newest checkpoint.
std::vector<std::string> tensors(const fs::path& folder) {
  const fs::path checkpoints = folder / "checkpoints";
  const SafeTensors file(CheckpointFolder::path_of(checkpoints, CheckpointFolder::steps_in(checkpoints).at(0)));
  std::vector<std::string> contents;
  for (const auto& [name, entry] : file.entries()) {
    const Array array = file.array(name);
    contents.push_back(name + std::string(reinterpret_cast<const char*>(array.data()), array.bytes()));
  }
  return contents;
}

void check_equal(const fs::path& resumed, const fs::path& whole) {
  CHECK((timeless_metrics(resumed) == timeless_metrics(whole)));  // too long to print
  std::string rows = csv_header();
  for (const Json& record : metrics_of(resumed)) rows += csv_line(record);
  CHECK(bytes_of(resumed / MetricsLog::kCsv) == rows);
  CHECK((tensors(resumed) == tensors(whole)));
  CHECK((bytes_of(resumed / "model.safetensors") == bytes_of(whole / "model.safetensors")));
  CHECK((bytes_of(resumed / "best.safetensors") == bytes_of(whole / "best.safetensors")));
}

}  // namespace

TEST_CASE("a run that was interrupted after any step and resumed equals one that was not, bit by bit") {
  const TemporaryFolder folder;
  const fs::path whole = finish(config_of(kOneJob, folder.path())).result.folder;
  for (const int step : {1, 2, 3, 4, 5, 10, 14, 15}) {  // of three epochs of five
    if (kOnce && step != 4 && step != 10) continue;
    CAPTURE(step);
    const std::string at = "step " + std::to_string(step) + "/15";
    const RunConfig settings = config_of(kOneJob, folder.path());
    const RunResult interrupted = finish(settings, {}, at).result;
    REQUIRE(interrupted.interrupted == SIGINT);
    const Finished resumed = finish(settings, interrupted.folder);
    CHECK(resumed.result.interrupted == 0);
    CHECK(contains(resumed.output, "resumed after step "));
    check_equal(interrupted.folder, whole);
  }
}

TEST_CASE("a record of several steps is the same if the run was interrupted between them") {
  const TemporaryFolder folder;
  const RunConfig settings = config_of(kOneJob, folder.path(), {"train.log_interval=3"});
  const fs::path whole = finish(settings).result.folder;
  const fs::path resumed = finish(settings, {}, "step 6/15").result.folder;
  CHECK(CheckpointFolder::steps_in(resumed / "checkpoints").at(0) % 3 > 0);
  finish(settings, resumed);
  check_equal(resumed, whole);
}

TEST_CASE("jobs that were interrupted together and resumed end as if they had not been") {
  const TemporaryFolder folder;
  const RunConfig settings = config_of(kThreeJobs, folder.path());
  const fs::path whole = finish(settings).result.folder;
  for (const std::string at :
       {"first: epoch 1/1  step 3/6", "second: epoch 2/3  step 9/18", "third: epoch 3/3  step 8/9"}) {
    CAPTURE(at);
    const RunResult interrupted = finish(settings, {}, at).result;
    REQUIRE(interrupted.interrupted == SIGINT);
    const RunResult resumed = finish(settings, interrupted.folder).result;
    CHECK_FALSE(resumed.failed());
    for (const std::string job : {"first", "second", "third"}) check_equal(resumed.folder / job, whole / job);
  }
}

TEST_CASE("SIGUSR1 saves, and training continues") {
  const TemporaryFolder folder;
  const RunConfig settings = config_of(kOneJob, folder.path(), {"checkpoint.keep_last=10"});
  const RunResult result = finish(settings, {}, "step 7/15", SIGUSR1).result;
  CHECK(result.interrupted == 0);
  CHECK(result.jobs[0].steps == 15);
  const std::vector<std::int64_t> steps = CheckpointFolder::steps_in(result.folder / "checkpoints");
  CHECK(steps == std::vector<std::int64_t>{15, 10, 8, 5});  // step 8 was running
}

TEST_CASE("checkpoints are made every n steps, and the last and the best are kept") {
  const TemporaryFolder folder;
  const auto kept = [&](const std::vector<std::string>& overrides) {
    return CheckpointFolder::steps_in(finish(config_of(kOneJob, folder.path(), overrides)).result.folder /
                                      "checkpoints");
  };
  using Steps = std::vector<std::int64_t>;
  CHECK(kept({"checkpoint.every_n_steps=4", "checkpoint.keep_last=20"}) == Steps{15, 12, 10, 8, 5, 4});
  CHECK(kept({"checkpoint.every_n_steps=4", "checkpoint.keep_last=2", "checkpoint.keep_best=0"}) == Steps{15, 12});
  const Steps best = kept({"checkpoint.keep_last=1", "checkpoint.keep_best=2"});
  CHECK(best.size() == 3);  // the last one had not been rated when it was written
}

TEST_CASE("a damaged newest checkpoint is passed over for the one before, which is said") {
  const TemporaryFolder folder;
  // The learning rate is so low that the model after the first epoch stays the best. Training continues there.
  const RunConfig settings = config_of(kOneJob, folder.path(), {"optimizer.lr=1e-6"});
  const fs::path whole = finish(settings).result.folder;
  const fs::path folder_of_run = finish(settings, {}, "step 7/15").result.folder,
                 checkpoints = folder_of_run / "checkpoints";
  const std::vector<std::int64_t> steps = CheckpointFolder::steps_in(checkpoints);
  REQUIRE(steps.size() >= 2);
  const fs::path newest = CheckpointFolder::path_of(checkpoints, steps[0]);
  fs::resize_file(newest, fs::file_size(newest) / 2);
  std::ostringstream warnings;
  std::streambuf* const before = std::cerr.rdbuf(warnings.rdbuf());
  const Finished resumed = finish(settings, folder_of_run);
  std::cerr.rdbuf(before);
  CHECK(contains(warnings.str(), newest.string() + ": truncated or damaged"));
  CHECK(contains(resumed.output, "resumed after step " + std::to_string(steps[1]) + " of 15"));
  check_equal(folder_of_run, whole);
}

TEST_CASE("a run without a usable checkpoint is not resumed from nothing") {
  const TemporaryFolder folder;
  const RunConfig settings = config_of(kOneJob, folder.path());
  const fs::path folder_of_run = finish(settings, {}, "step 2/15").result.folder;
  const auto error = [&](const std::vector<std::string>& overrides) {
    return error_of<DataError>([&] { finish(config_of(kOneJob, folder.path(), overrides), folder_of_run); });
  };
  CHECK(contains(error({"model.name=mlp"}), "tensor 'fc1.weight': expected f32 [256,256], found f32 [120,64]"));
  CHECK(contains(error({"train.batch_size=8"}), "continue with the data and the batch size of before"));
  CHECK(contains(error({"train.max_steps=1"}), "more than the 1 that the config asks for"));
  for (const auto& file : fs::directory_iterator(folder_of_run / "checkpoints")) fs::resize_file(file.path(), 100);
  CHECK(contains(error({}), "No other checkpoint can be used"));
}

TEST_CASE("a run that ended before its first checkpoint begins anew") {
  const TemporaryFolder folder;
  const RunConfig settings = config_of(kOneJob, folder.path());
  const fs::path folder_of_run = finish(settings, {}, "step 3/15").result.folder;
  for (const std::int64_t step : CheckpointFolder::steps_in(folder_of_run / "checkpoints")) {
    fs::remove(CheckpointFolder::path_of(folder_of_run / "checkpoints", step));
  }
  finish(settings, folder_of_run);
  check_equal(folder_of_run, finish(settings).result.folder);
}

TEST_CASE("a finished run can be made longer") {
  const TemporaryFolder folder;
  const std::vector<std::string> constant{"schedule.name=constant"}, longer{"schedule.name=constant", "train.epochs=4"};
  const fs::path folder_of_run = finish(config_of(kOneJob, folder.path(), constant)).result.folder;
  const RunResult result = finish(config_of(kOneJob, folder.path(), longer), folder_of_run).result;
  CHECK(result.jobs[0].steps == 20);
  check_equal(folder_of_run, finish(config_of(kOneJob, folder.path(), longer)).result.folder);
  CHECK(contains(bytes_of(folder_of_run / "config.yaml"), "epochs: 4"));
}

TEST_CASE("a run that another process is training is not resumed") {
  const TemporaryFolder folder;
  const RunConfig settings = config_of(kOneJob, folder.path());
  const fs::path folder_of_run = finish(settings, {}, "step 2/15").result.folder;
  const FolderLock other(folder_of_run);
  CHECK(error_of<Error>([&] { finish(settings, folder_of_run); }) ==
        folder_of_run.string() + ": is in use by another process");
}
