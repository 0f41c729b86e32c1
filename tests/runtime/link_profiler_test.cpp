#include "runtime/profile/link_profiler.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "autograd/functions.h"
#include "core/local/local_ranks.h"
#include "runtime/session.h"
#include "scheduler/costs/profile.h"
#include "tests/core/on_all.h"

namespace braid {
namespace {

using Kind = CollectiveCall::Kind;

/// The times of a model, every second of them by `factor` too long and the others too short.
std::vector<CallTime> modelled(int ranks, const Link& link, double factor) {
  std::vector<CallTime> times;
  for (std::int64_t count = 1; count < 1 << 24; count *= 4) {
    for (const CollectiveCall& call :
         {CollectiveCall{Kind::all_reduce, ranks * count, DType::f32},
          CollectiveCall{Kind::reduce_scatter, count, DType::f32}, CollectiveCall{Kind::all_gather, 4 * count},
          CollectiveCall{Kind::all_to_all, 4 * count}}) {
      times.push_back({call, seconds(call, ranks, link) * (times.size() % 2 == 0 ? factor : 1 / factor)});
    }
  }
  return times;
}

TEST_CASE("a fit finds the link that times were made up with") {
  // Eight ranks reduce small sums by a tree and large ones by a ring.
  for (const int ranks : {2, 3, 8}) {
    for (const Link& link : {Link{.latency_seconds = 2e-6, .bytes_per_second = 300e9},
                             Link{.latency_seconds = 50e-6, .bytes_per_second = 1.25e9, .units = 1},
                             Link{.latency_seconds = 3e-3, .bytes_per_second = 1e6}}) {
      const Link start{.latency_seconds = 20e-6, .bytes_per_second = 1e9, .units = link.units};
      const Link exact = fitted_link(modelled(ranks, link, 1), ranks, start);
      CHECK(exact.latency_seconds == doctest::Approx(link.latency_seconds).epsilon(1e-3));
      CHECK(exact.bytes_per_second == doctest::Approx(link.bytes_per_second).epsilon(1e-3));
      CHECK(exact.units == link.units);
      // Errors in both directions mostly cancel out: all but what their order in the list leaves.
      const Link noisy = fitted_link(modelled(ranks, link, 1.3), ranks, start);
      CHECK(noisy.latency_seconds == doctest::Approx(link.latency_seconds).epsilon(0.1));
      CHECK(noisy.bytes_per_second == doctest::Approx(link.bytes_per_second).epsilon(0.1));
    }
  }
}

TEST_CASE("ranks measure the link that is put between them") {
  // So slow that it does not matter if the threads of a busy machine wake up late: a message takes 4 ms and the largest
  // sum 69 ms, of which a scheduler's time slices of a few milliseconds are less than a quarter.
  const Link link{.latency_seconds = 4e-3, .bytes_per_second = 5e5};
  LocalRanks ranks(2, link);
  std::vector<CallTime> times[2];
  const auto errors =
      testing::on_all(ranks, [&](Communicator& own) { times[own.rank()] = time_collectives(own, 32 << 10, 5); });
  REQUIRE(errors == std::vector<std::string>(2));
  REQUIRE(times[0].size() == 4 * 7);  // collectives, and sizes from 8 bytes to 32 KiB
  REQUIRE(times[1].size() == times[0].size());
  for (std::size_t i = 0; i < times[0].size(); ++i) {
    const CallTime& time = times[0][i];
    CHECK(time.seconds >= seconds(time.call, 2, link));  // sleep never ends early
    CHECK(times[1][i].call == time.call);
    CHECK(times[1][i].seconds == time.seconds);
  }
  const Link found = fitted_link(times[0], 2, {.latency_seconds = 1e-6, .bytes_per_second = 1e9});
  CHECK(found.latency_seconds == doctest::Approx(link.latency_seconds).epsilon(0.25));
  CHECK(found.bytes_per_second == doctest::Approx(link.bytes_per_second).epsilon(0.25));
}

TEST_CASE("one rank has no link to measure") {
  LocalRanks alone(1);
  CHECK_THROWS_WITH_AS(time_collectives(alone.of(0)),
                       "[profile] expected at least 2 ranks to measure the link between them", Error);
}

TEST_CASE("a session plans with the link of its costs in place of the communicator's") {
  const std::string file = std::filesystem::temp_directory_path() / message("braid_link_", getpid(), ".json");
  const Link assumed{.latency_seconds = 1e-3}, measured{.latency_seconds = 1, .bytes_per_second = 1e9};
  LocalRanks ranks(2, assumed);
  const auto makespan = [&](const std::string& costs) {
    double predicted = 0;
    const auto errors = testing::on_all(ranks, [&](Communicator& own) {
      Session session({.device = "cpu",
                       .streams = 1,
                       .policy = "critical_path",
                       .threads = 1,
                       .costs = costs,
                       .parallel = {.communicator = {std::shared_ptr<void>(), &own}}});
      Step step = session.step();
      const Tensor x = place(Array::from<float>({1, -2, 3, 4}, {2, 2}), Layout::split);
      const Tensor loss = cross_entropy(x, place(Array::from<std::int32_t>({0, 1}, {2}), Layout::split));
      loss.item();
      if (own.rank() == 0) predicted = step.plan().makespan;
    });
    REQUIRE(errors == std::vector<std::string>(2));
    return predicted;
  };
  const auto backend = make_backend(Device{}, 1);
  scheduler::Profile profile{
      .device = backend->info().name, .capacity = backend->info().capacity, .software = "", .link = measured};
  scheduler::write_profile(file, profile);
  // Next to messages, which take a thousand times as long, computing takes a few microseconds.
  CHECK(makespan(file) / makespan("") == doctest::Approx(1000).epsilon(0.05));
  profile.link.reset();
  scheduler::write_profile(file, profile);
  CHECK(makespan(file) == makespan(""));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace braid
