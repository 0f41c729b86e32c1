// Several devices, and several parts of one: what is made in one context is used in no other.

#include <doctest/doctest.h>

#include <thread>

#include "core/base/error.h"
#include "core/device/cuda/green_contexts.h"
#include "tests/cuda/fresh_device.h"
#include "tests/cuda/networks.h"
#include "tests/cuda/recording/recording.h"

namespace braid::testing {
namespace {

void run_network(Session& session) {
  Step step = session.step();
  random_network(Tensor(noise({8, 8}, 1)), 1, 30);
  step.run();
}

TEST_CASE("streams, events and handles are made and used in the context of their part of the device") {
  for (const bool cuda_graphs : {false, true}) {
    const FreshDevice world;
    std::vector<unsigned> sms;
    {
      Session session({.device = "cuda", .partition = {88, 44}, .cuda_graphs = cuda_graphs});
      for (const recording::Call& call : recording::calls()) {
        if (call.function == "cuGreenCtxCreate") sms.push_back(call.flags);
      }
      const Array image = noise({2, 8, 8, 4}, 1), filter = noise({4, 3, 3, 4}, 2);
      for (int run = 0; run < 4; ++run) {
        session.prefetch(std::span(&image, 1));
        Step step = session.step();
        const Tensor x = Tensor(image);
        for (int i = 0; i < 3; ++i) conv2d(x, filter, {.padding = 1});
        random_network(Tensor(noise({8, 8}, 3)), 2, 20);
        run == 1 ? static_cast<void>(step.measure()) : step.run();
        CHECK(step.plan().commands.used_streams() == 2);
        session.synchronize();
      }
    }
    CHECK(sms == std::vector{88u, 44u});  // the last twelve SMs are no whole group
  }
}

/// How many SMs each stream of a partition gets.
std::vector<unsigned> given(const std::vector<int>& partition) {
  recording::reset();
  const cuda::GreenContexts contexts(0, partition);
  std::vector<unsigned> sms;
  for (const recording::Call& call : recording::calls()) {
    if (call.function == "cuGreenCtxCreate") sms.push_back(call.flags);
  }
  CHECK(recording::mistakes() == std::vector<std::string>{});
  return sms;
}

TEST_CASE("a partition is made of whole groups of one split, and the rest that is no group completes a request") {
  CHECK(given({64, 64}) == std::vector{64u, 68u});
  CHECK(given({44, 88}) == std::vector{44u, 88u});
  CHECK(given({88, 44}) == std::vector{88u, 44u});
  CHECK(given({1, 12, 17}) == std::vector{8u, 16u, 20u});
  CHECK(given({4, 120}) == std::vector{8u, 124u});
  CHECK(given({124, 4}) == std::vector{124u, 8u});
  CHECK(given({132}) == std::vector{132u});
  CHECK_THROWS_WITH_AS(given({44, 89}),
                       "[cuda] a stream requests 89 SMs, but 88 of 132 are left; they are given out in groups",
                       DeviceError);
}

TEST_CASE("a step is planned ahead for the session's device, whichever is the current one") {
  recording::reset();
  recording::set_devices(2);
  Session session({.device = "cuda:1", .streams = 2});
  CHECK(cudaSetDevice(0) == cudaSuccess);
  Step step = session.step();
  random_network(Tensor(noise({8, 8}, 1)), 1, 10);
  step.plan_ahead();
  int device = 0;
  CHECK(cudaGetDevice(&device) == cudaSuccess);
  CHECK(device == 1);
}

TEST_CASE("a session on the second of two devices makes everything there") {
  const FreshDevice world;
  recording::set_devices(2);
  Session first({.device = "cuda:0", .streams = 2}), second({.device = "cuda:1", .streams = 2});
  for (int run = 0; run < 4; ++run) {
    for (Session* session : {&first, &second}) run_network(*session);
  }
  std::thread([&] {  // where device 0 is the current one
    run_network(second);
    const Buffer target = second.backend().allocate(4);
    CHECK(cudaSetDevice(0) == cudaSuccess);
    const auto streams = second.backend().make_streams({.count = 2});
    const int source = 1;
    const Upload upload{target.data(), &source, 4};
    CHECK(cudaSetDevice(0) == cudaSuccess);
    streams->upload(std::span(&upload, 1));
    CHECK_NOTHROW(streams->synchronize());
  })
      .join();
}

}  // namespace
}  // namespace braid::testing
