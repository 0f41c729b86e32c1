#include "train/inspect/bench/bench.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <sstream>

#include "core/base/error.h"
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
  for (int attempt = 0; attempt < 3; ++attempt) {
    recording::fail_next("cudaStreamEndCapture", cudaErrorStreamCaptureInvalidated);
  }
  benches[0]->warm_up();
  const std::string report = "steps run without a CUDA graph: [cuda] cudaStreamEndCapture failed";
  std::istringstream in("setting\n");
  std::ostringstream out;
  serve(benches, in, out);
  CHECK(out.str().find("\"capture_report\":\"" + report) != std::string::npos);
  CHECK(to_text(benches[0]->setting(), {}, {}, std::vector<OpTimes>()).find("  captured  " + report) !=
        std::string::npos);
}

/// The stub of CUPTI can be attached once in a process: this runs in a separate one.
TEST_CASE("the ops of a benchmark are timed by CUPTI, and it is detached afterwards" * doctest::skip()) {
  recording::reset();
  void* library = dlopen(message("libcupti.so.", CUDART_VERSION / 1000).c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto misuse = reinterpret_cast<const char* (*)()>(dlsym(library, "stub_misuse"));
  const auto finalized = reinterpret_cast<bool (*)()>(dlsym(library, "stub_finalized"));
  REQUIRE((misuse != nullptr && finalized != nullptr));  // else it is not the stub
  std::vector<std::unique_ptr<Bench>> benches;
  benches.push_back(std::make_unique<Bench>(small_config()));
  benches[0]->warm_up();
  CHECK_FALSE(finalized());
  const auto ops = [&] {
    std::istringstream in("ops\n");
    std::ostringstream out;
    serve(benches, in, out);
    return out.str();
  };
  // The stub records no kernels here.
  CHECK(ops().find("\"clock\":\"events, as CUPTI recorded nothing\"") != std::string::npos);
  CHECK(finalized());
  CHECK(misuse() == std::string());
  CHECK(ops().find("\"clock\":\"graph replay, as CUPTI cannot be used: it was detached from this process\"") !=
        std::string::npos);
}

}  // namespace braid::testing
