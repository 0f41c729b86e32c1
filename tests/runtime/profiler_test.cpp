#include "runtime/profile/profiler.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "autograd/functions.h"
#include "tests/data/files.h"

namespace braid {
namespace {

/// The loss of one step with two equal nodes, run by the profiler if there is one.
double step_of(Session& session, Profiler* profiler) {
  Step step = session.step();
  const Tensor x = Array::from<float>({1, -2, 3, 4}, {2, 2});
  const Tensor loss = cross_entropy(relu(relu(x)), Array::from<std::int32_t>({0, 1}, {2}));
  if (profiler != nullptr) profiler->run(step);
  return loss.item();
}

scheduler::Profile profile_of(int width) {
  Session session(profiling_options({.device = "cpu", .threads = 2}, width));
  Profiler profiler(session);
  for (int run = 0; run < 3; ++run) step_of(session, &profiler);
  return profiler.profile();
}

TEST_CASE("a profiler times every node, and equal nodes are samples of one") {
  const scheduler::Profile profile = profile_of(1);
  CHECK(profile.capacity >= 1);
  REQUIRE(profile.measurements.size() == 2);
  CHECK(profile.measurements[0].implementation.node.starts_with("cross_entropy{"));
  CHECK(profile.measurements[0].samples == 3);
  CHECK(profile.measurements[1].implementation.node.starts_with("relu "));
  CHECK(profile.measurements[1].samples == 6);
  for (const scheduler::Measurement& m : profile.measurements) {
    CHECK(m.implementation.width == 1);
    CHECK(m.microseconds > 0);
  }
}

TEST_CASE("only where nodes run alone, and all at one width, can they be profiled") {
  Session two({.device = "cpu", .streams = 2, .intra_op_threads = 1}), any_width({.device = "cpu", .streams = 1});
  CHECK_THROWS_AS(Profiler{two}, Error);
  CHECK_THROWS_AS(Profiler{any_width}, Error);
}

TEST_CASE("a fault in a measured step is thrown at once, and by every read") {
  Session session(profiling_options({.device = "cpu"}, 1));
  Step step = session.step();
  const Tensor loss = cross_entropy(Array::from<float>({1, 2}, {1, 2}), Array::from<std::int32_t>({7}, {1}));
  CHECK_THROWS_AS(step.measure(), DataError);
  CHECK_THROWS_AS(loss.item(), DataError);
}

TEST_CASE("a session plans with measured costs") {
  const testing::TemporaryFolder folder;
  const std::string file = folder.path() + "/costs.json";
  scheduler::Profile profile = profile_of(1);
  for (scheduler::Measurement& m : profile.measurements) m.microseconds = 1000;
  scheduler::write_profile(file, profile);
  {
    Session session({.device = "cpu", .streams = 1, .intra_op_threads = 1, .threads = 2, .profile = file});
    CHECK(session.stats().measured == scheduler::ProfileUse{});
    Step step = session.step();
    const Tensor x = Array::from<float>({1, -2, 3, 4}, {2, 2});
    const Tensor loss = cross_entropy(relu(relu(x)) + x, Array::from<std::int32_t>({0, 1}, {2}));
    loss.item();
    CHECK(session.stats().measured == scheduler::ProfileUse{.known = 3, .unknown = 1});
    CHECK(step.plan().makespan >= 3000);
  }
  profile.device = "another";
  scheduler::write_profile(file, profile);
  const SessionOptions options{.device = "cpu", .threads = 2, .profile = file};
  CHECK_THROWS_AS(Session{options}, DeviceError);
  std::filesystem::remove(file);
  CHECK_THROWS_AS(Session{options}, DataError);
}

}  // namespace
}  // namespace braid
