// A training run on the recorded device: kernels do nothing there, so nothing is learned.

#include <doctest/doctest.h>

#include <sstream>

#include "tests/cuda/fresh_device.h"
#include "tests/cuda/recording/recording.h"
#include "tests/data/files.h"
#include "tests/train/single_job.h"
#include "train/run/trainer.h"

namespace braid::testing {
namespace {

TEST_CASE("training goes on when a capture fails, and warns once with the op that broke it") {
  const TemporaryFolder folder;
  const FreshDevice world;
  const TrainConfig config = parse_train_config(
      "name: tiny\n"
      "device: cuda\n"
      "streams: 2\n"
      "model: {name: lenet5}\n"
      "data: {name: synthetic, size: 160, val_size: 32, image_size: 16, channels: 1, classes: 4,\n"
      "       normalize: {mean: [0.5], std: [0.25]}}\n"
      "train: {epochs: 2, batch_size: 32, log_interval: 1}\n"
      "eval: {batch_size: 32}\n",
      "tiny.yaml", {"output.root=" + folder.path()});
  for (int attempt = 0; attempt < 3; ++attempt) {
    recording::fail_next("cudaStreamIsCapturing", cudaErrorStreamCaptureInvalidated);
  }
  std::ostringstream out;
  Progress progress(out, Progress::Mode::lines);
  const RunResult result = Trainer({config.name, config.output_root, {{config, 1}}, false}).run(progress);
  CHECK(result.jobs.front().steps == 10);
  const std::string text = out.str(), warning = "warning: steps run without a CUDA graph: conv2d 0: ";
  const std::size_t at = text.find(warning);
  REQUIRE(at != std::string::npos);
  CHECK(text.find(warning, at + 1) == std::string::npos);
}

}  // namespace
}  // namespace braid::testing
