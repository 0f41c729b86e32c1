// A training on the recorded device: kernels do nothing there, so nothing is learned.

#include "train/run/trainer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "tests/cuda/fresh_device.h"
#include "tests/cuda/recording/recording.h"
#include "tests/data/files.h"
#include "tests/train/quiet_training.h"
#include "tests/train/single_job.h"

namespace braid::testing {
namespace {

/// Five steps per epoch.
RunConfig tiny(const TemporaryFolder& folder, int epochs) {
  return as_run(
      parse_train_config("name: tiny\n"
                         "device: cuda\n"
                         "streams: 2\n"
                         "model: {name: lenet5}\n"
                         "data: {name: synthetic, size: 40, val_size: 16, image_size: 16, channels: 1, classes: 4}\n"
                         "train: {batch_size: 8, log_interval: 1}\n",
                         "tiny.yaml", {"output.root=" + folder.path(), message("train.epochs=", epochs)}));
}

TEST_CASE("the trainer launches a step before it reads the loss of the step before, until an epoch ends") {
  using recording::Call;
  const FreshDevice world;
  const TemporaryFolder folder;
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
  Trainer trainer(tiny(folder, 1));
  CHECK(trainer.run(progress).jobs.front().steps == 5);
  CHECK(buffer.copies == std::vector<std::int64_t>{4, 6, 8, 10, 10});
}

TEST_CASE("training continues when a capture fails, and warns once with the op that broke it") {
  const FreshDevice world;
  const TemporaryFolder folder;
  for (int attempt = 0; attempt < 3; ++attempt) {
    recording::fail_next("cudaStreamIsCapturing", cudaErrorStreamCaptureInvalidated);
  }
  std::ostringstream out;
  Progress progress(out, Progress::Mode::lines);
  CHECK(Trainer(tiny(folder, 2)).run(progress).jobs.front().steps == 10);
  const std::string text = out.str(), warning = "warning: steps run without a CUDA graph: conv2d 0: ";
  const std::size_t at = text.find(warning);
  REQUIRE(at != std::string::npos);
  CHECK(text.find(warning, at + 1) == std::string::npos);
}

}  // namespace
}  // namespace braid::testing
