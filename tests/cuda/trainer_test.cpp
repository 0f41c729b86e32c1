// When the trainer reads what a step found: not before it has launched the next.

#include "train/run/trainer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "tests/cuda/fresh_device.h"
#include "tests/cuda/recording/recording.h"
#include "tests/data/files.h"
#include "tests/train/single_job.h"

namespace braid::testing {
namespace {

TEST_CASE("the trainer launches a step before it reads the loss of the step before, until an epoch ends") {
  using recording::Call;
  const FreshDevice world;
  const TemporaryFolder folder;
  const TrainConfig config = parse_train_config(
      "name: tiny\n"
      "device: cuda\n"
      "streams: 2\n"
      "model: {name: lenet5}\n"
      "data: {name: synthetic, size: 40, val_size: 16, image_size: 16, channels: 1, classes: 4}\n"
      "train: {epochs: 1, batch_size: 8, log_interval: 1}\n",
      "tiny.yaml", {"output.root=" + folder.path()});

  /// Notes at every line about a step how many copies to the host were launched: loss and accuracy of each step.
  class Watcher : public std::stringbuf {
   public:
    std::vector<std::int64_t> copies;

   private:
    int sync() override {
      if (str().find("step ") != std::string::npos && str().find("validating") == std::string::npos) {
        copies.push_back(std::ranges::count_if(recording::calls(), [](const Call& call) {
          return call.kind == Call::Kind::copy && recording::pinned_block(call.pointers[0].data).has_value();
        }));
      }
      str("");
      return 0;
    }
  } buffer;
  std::ostream out(&buffer);
  Progress progress(out, Progress::Mode::lines);
  Trainer trainer(RunConfig{config.name, config.output_root, {{config, 1}}, false});
  CHECK(trainer.run(progress).jobs.front().steps == 5);
  CHECK(buffer.copies == std::vector<std::int64_t>{4, 6, 8, 10, 10});
}

}  // namespace
}  // namespace braid::testing
