// One rank of a check of core/comm/mpi, which ctest starts with mpirun:
//
//   collectives all      every collective, in one call of MPI and in many, against what it must be
//   collectives networks random networks divided over the ranks compute what they compute whole
//   collectives late     rank 0 calls no collective: the others give up after their timeout, and all processes end
//   collectives thrown   rank 0 ends by an exception: all processes end
//   collectives aborted  rank 0 aborts its own call from another thread: all processes end
//   collectives told     rank 0 is told of a failure after its last call: it ends with the reason
//   collectives early    rank 1 ends before rank 0: all processes end, and one says why
//   collectives devices  rank 1 asks for a GPU, rank 0 for the CPU: an error on both
//   collectives without  alone, in a build without MPI: the error that says so

#include "tests/core/collectives.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "autograd/functions.h"
#include "core/base/error.h"
#include "core/comm/communicator.h"
#include "core/comm/mpi/mpi_communicator.h"
#include "core/comm/rank_device.h"
#include "runtime/session.h"
#include "tests/error_of.h"
#include "tests/ops/partition/random_network.h"
#include "tests/ops/rounding.h"
#include "train/optimizer.h"

namespace {

using namespace braid;
using namespace std::chrono_literals;

const LaunchContext kHere;

/// Sums that depend on their order have the same bits on all ranks.
void check_equal_bits(Communicator& ranks, std::int64_t count) {
  std::vector<float> data(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    data[static_cast<std::size_t>(i)] = 1.0f / static_cast<float>(1 + (i * 31 + ranks.rank() * 17) % 1009);
  }
  ranks.all_reduce(data.data(), count, DType::f32, kHere);
  auto first = data;
  ranks.broadcast(first.data(), count * 4, 0, kHere);
  BRAID_CHECK(count == 0 || std::memcmp(first.data(), data.data(), data.size() * 4) == 0, Error, "all_reduce: rank ",
              ranks.rank(), " has other bits than rank 0");
}

void check_all(Communicator& ranks, std::int64_t most) {
  for (const std::int64_t count : {0, 1, 2, 63, 1000, 100'003}) {
    if (count > most) continue;
    const std::string wrong = testing::wrong_collectives<float, double, std::int32_t>(ranks, count, 1, true) +
                              testing::wrong_messages(ranks, count, 5);
    BRAID_CHECK(wrong.empty(), Error, "wrong: ", wrong);
    check_equal_bits(ranks, count);
    ranks.barrier();
  }
  std::vector<Half> halves(12);
  const std::string error = testing::error_of<Error>([&] { ranks.all_reduce(halves.data(), 12, DType::f16, kHere); });
  BRAID_CHECK(error == "[mpi] all_reduce of 12 f16: MPI adds f32, f64 and i32", Error, "all_reduce of f16: '", error,
              "'");
  ranks.barrier();
}

/// Whether the call fails with a CommunicationError that begins so.
void check_fails(const std::function<void()>& call, const std::string& expected) {
  const std::string error = testing::error_of<CommunicationError>(call);
  BRAID_CHECK(error.starts_with(expected), Error, "expected the error ", expected, ", got '", error, "'");
}

/// Trains on a few steps, the fourth of which never comes on rank 1.
void train(std::shared_ptr<Communicator> ranks) {
  Session session({.device = "cpu", .streams = 1, .threads = 1, .parallel = {.communicator = ranks}});
  Parameter& w = session.add("w", {DType::f32, {64, 32}}, ValueKind::parameter);
  SGD sgd({&w}, {.lr = 0.1});
  for (int i = 0; i < 6; ++i) {
    if (i == 3 && ranks->rank() == 1) return;
    Step step = session.step();
    const Tensor y = linear(place(Array(DType::f32, {4, 32}), Layout::split), w);
    const Tensor loss = mean(square(y));
    backward(loss);
    sgd.step();
    step.run();
    static_cast<void>(loss.item());
  }
}

/// Divides all layers of a network along the same dimension, or each along a random one.
Strategy strategy(std::uint64_t seed, std::string_view dimensions) {
  Generator random(seed, 4);
  Strategy layers;
  for (int i = 0; i < testing::RandomNetwork::kMostLayers; ++i) {
    layers["layer" + std::to_string(i)] = dimensions[random.below(static_cast<std::uint32_t>(dimensions.size()))];
  }
  return layers;
}

void check_networks(Communicator& ranks) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    for (const std::string_view dimensions : {"n", "h", "w", "c", "nhwc"}) {
      const testing::RandomNetwork network(
          seed, {.virtual_ranks = ranks.size(), .layers = strategy(seed, dimensions), .sync_batch_norm = true});
      const ops::Partition partition{.ranks = ranks.size(), .shards = ranks.size(), .exact = seed % 2 == 0};
      const std::vector<Array> expected = testing::results_of(network, {network.graph});
      const std::vector<Array> found = testing::results_of(network, testing::divided(network.graph, partition), &ranks);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double difference = testing::largest_difference(found[i], expected[i]);
        BRAID_CHECK(difference <= 1e-11 * std::max(1.0, testing::largest(expected[i])), Error, "network ", seed,
                    " divided along ", dimensions, ": result ", i, " differs by ", difference);
      }
    }
  }
}

int run(const std::string& what) {
  if (what == "without") {
    check_fails([] { make_communicator({.size = 2, .local_size = 2, .launcher = "srun"}); },
                "[mpi] srun started 2 ranks, but this build of Braid is without MPI: install libopenmpi-dev");
    std::cout << "as expected\n";
    return 0;
  }
  const Launch launch = launch_from_environment();
  BRAID_CHECK(launch.size > 1, Error, "start this program with mpirun");
  if (what == "devices") {
    const std::string error = "[parallel] rank 1 computes on a GPU, rank 0 on the CPU: give all ranks the same kind";
    check_fails([&] { make_communicator(launch, {launch.rank == 1 ? DeviceType::cuda : DeviceType::cpu}); }, error);
    std::cout << "as expected: " << error << std::endl;
    std::this_thread::sleep_for(1s);  // until mpirun has passed that on: the processes end by MPI_Abort
    return 0;
  }
  const bool waits = what == "late" || what == "early";
  const std::shared_ptr<Communicator> ranks = make_communicator(launch, waits ? 1s : 60s);
  BRAID_CHECK(ranks->rank() == launch.rank && ranks->size() == launch.size && ranks->name() == "mpi", Error,
              "another communicator than was asked for");
  std::vector<float> data(12);
  const auto reduce = [&] { ranks->all_reduce(data.data(), 12, DType::f32, kHere); };
  if (what == "all") {
    check_all(*ranks, 100'003);
    check_all(*mpi::make_communicator(launch, 60s, 17), 63);  // collectives split into pieces of 17 elements
    check_all(*mpi::make_communicator(launch, 60s, 30'000), 100'003);
    if (launch.size % 2 == 0) {
      check_all(ranks->among({2, 1}), 1000);
      check_all(ranks->among({2, launch.size / 2}), 1000);
    }
    if (launch.rank == 0) std::cout << "all collectives are right\n";
    return 0;
  }
  if (what == "networks") {
    check_networks(*ranks);
    if (launch.rank == 0) std::cout << "all networks compute the same\n";
    return 0;
  }
  ranks->barrier();
  if (what == "early") {
    train(ranks);
    return 0;
  }
  if (what == "told") {
    if (launch.rank == 0) ranks->abort("as expected: a reason");
    return 0;
  }
  if (what == "late") {
    if (launch.rank == 0) std::this_thread::sleep_for(600s);  // MPI_Abort of another rank ends it
    const auto begin = std::chrono::steady_clock::now();
    const std::string error = message("[mpi] rank ", launch.rank,
                                      " has waited 2 s in all_reduce of 12 f32: another rank is gone, late, or does "
                                      "something else. Other ranks: rank 0 last called barrier (call 1)");
    check_fails(reduce, error);
    BRAID_CHECK(std::chrono::steady_clock::now() - begin >= 2s, Error, "the call gave up before its timeout");
    check_fails([&] { ranks->barrier(); }, error);  // and so does every later call
    std::cout << "as expected: " << error << std::endl;
    std::this_thread::sleep_for(1s);  // until others have said so too
    return 0;
  }
  if (what == "thrown") {
    if (launch.rank == 0) throw Error("as expected: rank 0 ends");
    reduce();
  }
  if (what == "aborted") {
    if (launch.rank == 0) {
      std::thread watcher([&] {
        std::this_thread::sleep_for(100ms);
        ranks->abort("[test] a reason");
      });
      check_fails(reduce, "[test] a reason");
      watcher.join();
      std::cout << "as expected: rank 0 ends\n";  // not flushed: nothing is lost at the end of the process
      return 0;
    }
    std::this_thread::sleep_for(600s);  // MPI_Abort of rank 0 ends it
  }
  throw Error("unknown check '" + what + "'");
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count == 2 ? arguments[1] : "all");
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
