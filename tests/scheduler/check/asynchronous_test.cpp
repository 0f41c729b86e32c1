// Asynchronous SGD with parameter servers, simulated.

#include "scheduler/check/asynchronous.h"

#include <doctest/doctest.h>

#include <numeric>

#include "core/base/error.h"

using namespace braid;
using namespace braid::scheduler;

namespace {

std::int64_t total(const Staleness& staleness) {
  return std::accumulate(staleness.updates.begin(), staleness.updates.end(), std::int64_t{0});
}

}  // namespace

TEST_CASE("a worker alone computes with its own updates, and waits for two messages if they take longer") {
  AsynchronousSgd alone{.computing = 100, .sending = 20, .latency = 5};
  const Staleness staleness = simulate(alone, 11);
  CHECK(staleness.updates == std::vector<std::int64_t>{10});
  CHECK(staleness.largest() == 0);
  CHECK(staleness.updates_per_second == doctest::Approx(1e6 / (100 + 2 * 5)));
  alone.sending = 80;
  CHECK(simulate(alone, 11).updates_per_second == doctest::Approx(1e6 / (2 * 80 + 2 * 5)));
}

TEST_CASE("equal workers update one after another, so updates are as stale as there are other workers") {
  for (const int workers : {2, 3, 16}) {
    const Staleness staleness = simulate({.workers = workers, .computing = 100, .sending = 20, .latency = 5}, 11);
    std::vector<std::int64_t> expected(static_cast<std::size_t>(workers));
    expected.back() = 10 * workers;
    CHECK(staleness.updates == expected);
    CHECK(staleness.updates_per_second == doctest::Approx(workers * 1e6 / 110));
  }
}

TEST_CASE("updates are as stale, on average, as there are other workers, however fast each of them is") {
  for (const double spread : {0.0, 0.1, 1.0}) {
    for (const double straggler : {1.0, 5.0}) {
      for (const int workers_per_link : {1, 4}) {
        CAPTURE(spread);
        CAPTURE(straggler);
        CAPTURE(workers_per_link);
        const int workers = 12, each = 500;
        const Staleness staleness = simulate({.workers = workers,
                                              .workers_per_link = workers_per_link,
                                              .computing = 100,
                                              .sending = 20,
                                              .spread = spread,
                                              .straggler = straggler},
                                             each);
        CHECK(total(staleness) == (each - 1) * workers);
        // Between two updates of a worker are all others' updates; only those before its first and after its last are
        // not counted.
        const double uncounted = workers + 2.0 * staleness.largest();
        CHECK(std::abs(staleness.mean - (workers - 1)) <= uncounted / (each - 1));
        CHECK(std::abs(staleness.mean - (workers - 1)) < 0.07 * workers);
      }
    }
  }
}

TEST_CASE("a straggler's updates are staler than those of other workers, which it does not delay") {
  const AsynchronousSgd even{.workers = 8, .computing = 100, .spread = 0.1};
  AsynchronousSgd uneven = even;
  uneven.straggler = 3;
  const Staleness staleness = simulate(uneven);
  CHECK(simulate(even).mean_of_first == doctest::Approx(7).epsilon(0.1));
  CHECK(staleness.mean_of_first == doctest::Approx(3 * 7).epsilon(0.1));
  CHECK(staleness.updates_per_second == doctest::Approx((7 + 1 / 3.0) * 1e4).epsilon(0.02));
}

TEST_CASE("links carry no more messages than fit") {
  for (const int workers_per_link : {1, 4, 8}) {
    const int links = 8 / workers_per_link;
    AsynchronousSgd training{.workers = 8, .workers_per_link = workers_per_link, .sending = 50, .spread = 0.2};
    for (const double computing : {1.0, 100.0, 10000.0}) {
      training.computing = computing;
      const double most = links * 1e6 / (2 * training.sending), rate = simulate(training).updates_per_second;
      CHECK(rate <= most * (1 + 1e-9));
      if (computing == 1) CHECK(rate > 0.95 * most);
      if (computing == 10000) CHECK(rate == doctest::Approx(8 * 1e6 / computing).epsilon(0.02));
    }
  }
}

TEST_CASE("the network of a host carries what its workers exchange with servers on other hosts") {
  const Cluster cluster{.name = "box",
                        .hosts = 4,
                        .devices = 2,
                        .inside = {.latency_seconds = 1e-6, .bytes_per_second = 100e9},
                        .network = {.latency_seconds = 5e-6, .bytes_per_second = 10e9}};
  const auto inside = on_servers(cluster, 2, 1'000'000), across = on_servers(cluster, 8, 1'000'000);
  CHECK(on_servers(cluster, 1, 1'000'000).sending == 0);
  CHECK(inside.workers_per_link == 1);
  CHECK(inside.sending == doctest::Approx(10));
  CHECK(across.workers_per_link == 2);
  CHECK(across.sending == doctest::Approx(0.75 * 100));
  CHECK(across.latency == doctest::Approx(5));
  CHECK_THROWS_AS(on_servers(cluster, 9, 1), Error);
}

TEST_CASE("a bound on how far workers are ahead bounds the staleness, and makes all wait for a straggler") {
  AsynchronousSgd training{.workers = 6, .computing = 100, .straggler = 4, .bound = 0};
  // In each round all compute with the same parameters.
  CHECK(simulate(training, 11).updates == std::vector<std::int64_t>(6, 10));
  training.spread = 0.5;
  double last = 0;
  for (const int bound : {0, 1, 3}) {
    training.bound = bound;
    const Staleness staleness = simulate(training);
    CHECK(staleness.largest() <= (2 * bound + 1) * 5);
    CHECK(staleness.mean < 5);
    CHECK(staleness.updates_per_second < 6 * 1e4 / 4 * 1.1);
    CHECK(staleness.updates_per_second > last);
    last = staleness.updates_per_second;
  }
  training.bound = {};
  CHECK(simulate(training).largest() > 7 * 5);
  CHECK(simulate(training).updates_per_second > 3 * last);
}

TEST_CASE("the seed determines durations, which have the requested mean and spread") {
  AsynchronousSgd training{.workers = 8, .computing = 100, .spread = 0.5, .seed = 3};
  const Staleness staleness = simulate(training, 1000);
  CHECK(simulate(training, 1000).updates == staleness.updates);
  CHECK(staleness.updates_per_second == doctest::Approx(8e4).epsilon(0.02));
  training.seed = 4;
  CHECK(simulate(training, 1000).updates != staleness.updates);
  CHECK_THROWS_AS(simulate(training, 1), Error);
}
