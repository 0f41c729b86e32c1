#include "train/inspect/bench.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/cuda/recording/recording.h"

namespace braid::testing {

TEST_CASE("a benchmark lists the implementation that every convolution runs with") {
  recording::reset();
  TrainConfig config;
  config.session = {.device = "cuda", .streams = 1};
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.size = 8;
  config.data.image_size = 28;
  config.data.channels = 1;
  config.batch_size = 8;
  Bench bench(config);
  std::vector<std::string> convolutions;
  for (const auto& [node, implementation] : bench.implementations()) {
    CHECK_FALSE(implementation.empty());
    if (node.starts_with("conv2d")) convolutions.push_back(node);
  }
  CHECK(convolutions.size() == 5);  // two forward, two backward-filter, one backward-data
}

}  // namespace braid::testing
