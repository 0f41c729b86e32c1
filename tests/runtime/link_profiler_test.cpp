#include "runtime/profile/link_profiler.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "autograd/functions.h"
#include "core/base/random.h"
#include "core/comm/local/local_ranks.h"
#include "runtime/session.h"
#include "scheduler/costs/profile.h"
#include "tests/core/on_all.h"
#include "tests/data/files.h"

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
  // Eight ranks all-reduce few bytes by a tree and many by a ring.
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

/// One of two ranks, with a clock that jumps: a collective takes as long as the link allows from when the last rank has
/// come. Then the rank is late: after every barrier, and by a second after every third other call.
class MadeUpRank final : public Communicator {
 public:
  MadeUpRank(Communicator& own, const Link& link)
      : own_(own), link_(link), random_(1, static_cast<std::uint64_t>(rank())) {}
  double now() const { return now_; }
  int rank() const override { return own_.rank(); }
  int size() const override { return own_.size(); }
  std::string_view name() const override { return "made up"; }
  Link link() const override { return link_; }
  void run(const CollectiveCall& call, const void* source, void* target, const LaunchContext& where) override {
    if (call.kind != Kind::barrier) own_.run(call, source, target, where);
    pass(call);
  }
  void abort(const std::string& reason) override { own_.abort(reason); }

 private:
  void pass(const CollectiveCall& call) {
    double come[2];
    own_.all_gather(&now_, come, sizeof now_, {});
    now_ = std::max(come[0], come[1]) + seconds(call, 2, link_);
    if (call.kind == Kind::barrier) {
      now_ += 0.01 * random_.uniform();
    } else if (++calls_ % 3 == 0) {
      now_ += 1;
    }
  }

  Communicator& own_;
  const Link link_;
  Generator random_;
  int calls_ = 0;
  double now_ = 0;
};

TEST_CASE("ranks measure the link between them, however late they come and though some calls are disturbed") {
  const Link link{.latency_seconds = 50e-6, .bytes_per_second = 1e8};
  LocalRanks ranks(2);
  std::vector<CallTime> times[2];
  const auto errors = testing::on_all(ranks, [&](Communicator& own) {
    MadeUpRank rank(own, link);
    times[own.rank()] = time_collectives(rank, 8 << 10, 5, [&] { return rank.now(); });
  });
  REQUIRE(errors == std::vector<std::string>(2));
  REQUIRE(times[0].size() == 4 * 6);  // collectives, and sizes from 8 bytes to 8 KiB
  for (const CallTime& time : times[0]) {
    CHECK(time.seconds == doctest::Approx(seconds(time.call, 2, link)).epsilon(1e-6));
  }
  const Link found = fitted_link(times[0], 2, {.latency_seconds = 1e-6, .bytes_per_second = 1e9});
  CHECK(found.latency_seconds == doctest::Approx(link.latency_seconds).epsilon(1e-3));
  CHECK(found.bytes_per_second == doctest::Approx(link.bytes_per_second).epsilon(1e-3));
}

TEST_CASE("ranks measure by a real clock at least what the link that is put between them takes") {
  const Link link{.latency_seconds = 1e-4, .bytes_per_second = 1e7};
  LocalRanks ranks(2, link);
  std::vector<CallTime> times[2];
  const auto errors =
      testing::on_all(ranks, [&](Communicator& own) { times[own.rank()] = time_collectives(own, 512, 2); });
  REQUIRE(errors == std::vector<std::string>(2));
  REQUIRE(times[0].size() == 4 * 4);
  REQUIRE(times[1].size() == times[0].size());
  for (std::size_t i = 0; i < times[0].size(); ++i) {
    const CallTime& time = times[0][i];
    CHECK(time.seconds >= seconds(time.call, 2, link));  // sleep never ends early
    CHECK(times[1][i].call == time.call);
    CHECK(times[1][i].seconds == time.seconds);
  }
}

TEST_CASE("one rank has no link to measure") {
  LocalRanks alone(1);
  CHECK_THROWS_WITH_AS(time_collectives(alone.of(0)),
                       "[profile] expected at least 2 ranks to measure the link between them", Error);
}

TEST_CASE("a session plans with the link of its costs in place of the communicator's") {
  const testing::TemporaryFolder folder;
  const std::string file = folder.path() + "/link.json";
  const Link assumed{.latency_seconds = 1e-3}, measured{.latency_seconds = 1, .bytes_per_second = 1e9};
  LocalRanks ranks(2, assumed);
  const auto makespan = [&](const std::string& costs) {
    double predicted = 0;
    const auto errors = testing::on_all(ranks, [&](Communicator& own) {
      Session session({.device = "cpu",
                       .streams = 1,
                       .policy = "critical_path",
                       .threads = 1,
                       .profile = costs,
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
}

}  // namespace
}  // namespace braid
