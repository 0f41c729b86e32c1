// NCCL on a GPU: one rank, as two would need two GPUs.

#include <algorithm>

#include "core/comm/nccl/nccl_communicator.h"
#include "tests/gpu/training.h"
#include "tests/test_program.h"

namespace braid::testing {
namespace {

std::shared_ptr<Communicator> one_rank() {
  return nccl::make_communicator(Launch{}, 0, kCommunicationTimeout, nullptr);
}

}  // namespace

GPU_TEST_CASE("all calls of NCCL are captured, and 100 replays pass on the data of each") {
  constexpr std::int64_t kCount = 100'003;
  const auto backend = make_backend({DeviceType::cuda, 0});
  const auto ranks = one_rank();
  const auto streams = backend->make_streams({.count = 2});
  const Buffer in = backend->allocate(4 * kCount), middle = backend->allocate(4 * kCount),
               out = backend->allocate(4 * kCount);
  TestKernel kernel([&](const LaunchContext& where) {  // passes data on through every call: in → middle → out
    constexpr std::int64_t kBytes = 4 * kCount;
    ranks->all_reduce(in.data(), kCount, DType::f32, where);
    ranks->all_gather(in.data(), middle.data(), kBytes, where);
    ranks->all_to_all(middle.data(), out.data(), kBytes, where);
    ranks->reduce_scatter(out.data(), middle.data(), kCount, DType::f32, where);
    ranks->broadcast(middle.data(), kBytes, 0, where);
    ranks->all_gather(middle.data(), out.data(), kBytes, where);
    ranks->shift(middle.data(), out.data(), kBytes, 1, where);  // a lone rank receives nothing
  });
  const CommandLists commands{.streams = {{}, {{Command::Kind::launch, 0}}}};
  const Program program{commands, {&kernel}, {"pass_on"}};
  std::vector<float> sent(kCount), received(kCount);
  std::unique_ptr<Replay> replay;
  for (int run = 0; run < 102; ++run) {
    std::ranges::generate(sent, [&, i = 0]() mutable { return static_cast<float>(run * 1000 + i++ % 1000); });
    backend->copy_to_device(in.data(), sent.data(), in.bytes());
    if (run == 2) replay = streams->capture(program);  // ranks have connected
    replay != nullptr ? streams->launch(*replay) : streams->launch(program);
    streams->synchronize();
    backend->copy_to_host(received.data(), out.data(), out.bytes());
    REQUIRE(received == sent);
  }
}

GPU_TEST_CASE("calls of NCCL on host data return their results") {
  const auto ranks = one_rank();
  for (const std::size_t count : {3, 100'003}) {
    std::vector<std::int32_t> sent(count, 7), received(count);
    const auto bytes = static_cast<std::int64_t>(4 * count);
    ranks->all_gather(sent.data(), received.data(), bytes, {});
    CHECK(received == sent);
    ranks->all_reduce(sent.data(), static_cast<std::int64_t>(count), DType::i32, {});
    ranks->broadcast(sent.data(), bytes, 0, {});
    CHECK(received == sent);
  }
  ranks->barrier();
}

GPU_TEST_CASE("100 steps of a session with one rank of NCCL have the bits of one without, replayed as a CUDA graph") {
  SessionOptions options = on_device(4);
  const Training alone = train(options, "resnet20", 100);
  options.parallel.communicator = one_rank();
  check_equal(alone, train(options, "resnet20", 100));
}

}  // namespace braid::testing
