#include "train/inspect/bench.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "tests/cuda/recording/recording.h"

namespace braid::testing {

namespace {

TrainConfig small_config() {
  TrainConfig config;
  config.session = {.device = "cuda", .streams = 1};
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.size = 8;
  config.data.image_size = 28;
  config.data.channels = 1;
  config.batch_size = 8;
  return config;
}

}  // namespace

TEST_CASE("a benchmark lists the implementation that every convolution runs with") {
  recording::reset();
  Bench bench(small_config());
  std::vector<std::string> convolutions;
  for (const auto& [node, implementation] : bench.implementations()) {
    CHECK_FALSE(implementation.empty());
    if (node.starts_with("conv2d")) convolutions.push_back(node);
  }
  CHECK(convolutions.size() == 5);  // two forward, two backward-filter, one backward-data
}

TEST_CASE("a benchmark whose steps cannot be captured says so") {
  recording::reset();
  std::vector<std::unique_ptr<Bench>> benches;
  benches.push_back(std::make_unique<Bench>(small_config()));
  recording::fail_next("cudaStreamEndCapture", cudaErrorStreamCaptureInvalidated);
  benches[0]->warm_up();
  const std::string report = "steps run without a CUDA graph: [cuda] cudaStreamEndCapture failed";
  std::istringstream in("setting\n");
  std::ostringstream out;
  serve(benches, in, out);
  CHECK(out.str().find("\"capture_report\":\"" + report) != std::string::npos);
  CHECK(to_text(benches[0]->setting(), {}, {}, {}).find("  captured  " + report) != std::string::npos);
}

}  // namespace braid::testing
