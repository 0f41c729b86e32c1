// What the executor asks of CUDA is the plan, the whole plan and nothing but the plan.

#include <doctest/doctest.h>

#include "tests/cuda/networks.h"
#include "tests/cuda/trace.h"

namespace braid::testing {
namespace {

void random_step(std::uint64_t seed) { random_network(Tensor(random_array({8, 8}, seed)), seed, 40); }

std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += sentence + '\n';
  return text;
}

void check_program(const Ran& ran, const std::vector<int>& streams) {
  const std::vector<int> used(streams.begin(), streams.begin() + static_cast<std::ptrdiff_t>(ran.plan.streams.size()));
  const Trace trace = trace_of(recording::calls(), used);
  CHECK(joined(differences(trace, ran.plan)) == "");
  CHECK(joined(stray_pointers(trace, ran)) == "");
  CHECK(joined(shared_handles(trace)) == "");

  const Plan traced = traced_plan(trace, ran.plan);
  CHECK(joined(verify(ran.graph, ran.costs, traced)) == "");
  for (const auto& [stream, position] : plan_waits(trace, ran.plan)) {
    Plan broken = traced;
    broken.streams[stream].erase(broken.streams[stream].begin() + static_cast<std::ptrdiff_t>(position));
    CHECK_FALSE(verify(ran.graph, ran.costs, broken).empty());
  }
}

TEST_CASE("launches, records and waits are the plan's, one by one and captured") {
  std::size_t waits = 0;
  for (const int streams : {1, 2, 4}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(streams);
      CAPTURE(seed);
      recording::reset();
      {
        Session session({.device = "cuda", .streams = streams});
        const std::vector<int> ids = program_streams(recording::calls());
        CHECK(ids.size() == static_cast<std::size_t>(streams));
        NodeMarks marks;
        session.set_observer(&marks);
        for (int run = 0; run < 5; ++run) {
          Step step = session.step();
          random_step(seed);
          step.run();
          const bool issued = run < 3;  // the third run is issued into a capture, the later ones only replay it
          if (issued) {
            const Ran ran = inspect(session, step);
            check_program(ran, ids);
            waits += static_cast<std::size_t>(ran.plan.waits());
          }
          recording::clear();
        }
      }
      CHECK(joined(recording::mistakes()) == "");
      CHECK(recording::alive() == recording::Alive{});
    }
  }
  CHECK(waits > 100);
}

}  // namespace
}  // namespace braid::testing
