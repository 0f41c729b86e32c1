#include "runtime/compile/plan_cache.h"

#include <doctest/doctest.h>

#include "autograd/functions.h"
#include "ops/elementwise/elementwise.h"
#include "runtime/session.h"
#include "tests/memory.h"

namespace braid {
namespace {

/// y = 2·(factor·x), with the first product kept if told.
StepGraph scaled(double factor, std::int64_t size = 4, bool keep = false) {
  StepGraph graph;
  const ValueId x = graph.add_input({DType::f32, {size}});
  const ValueId y = graph.add_node(std::make_shared<ops::Scale>(factor), {x});
  graph.add_node(std::make_shared<ops::Scale>(2.0), {y});
  if (keep) graph.keep(y);
  return graph;
}

/// A cache in which all hashes are equal, with everything that it needs.
struct EqualHashes {
  const SessionOptions options{.device = "cpu", .streams = 1};
  Session session{options};
  std::unique_ptr<StreamGroup> streams = session.backend().make_streams({.count = 1});
  Planner planner{session, *streams, options};
  Arena arena{session.backend(), *streams};
  PlanCache cache{planner, [](const StepGraph&) { return Hash{}; }};

  Executable& find(const StepGraph& graph) { return cache.find(graph).ready(arena, session); }
};

TEST_CASE_FIXTURE(EqualHashes,
                  "graphs whose hashes are equal by accident get plans of their own, and find them again") {
  const StepGraph graphs[] = {scaled(3), scaled(5), scaled(3, 7), scaled(3, 4, true)};
  std::vector<const Executable*> plans;
  for (const StepGraph& graph : graphs) plans.push_back(&find(graph));
  CHECK(cache.plans() == 4);
  CHECK(cache.hits() == 0);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK(plans[i] != plans[j]);
    const Executable& found = find(graphs[i]);
    CHECK(found.graph().covers(graphs[i]));
    if (i > 0) CHECK(&found == plans[i]);  // the first may also be given the last, which keeps more
  }
  CHECK(cache.plans() == 4);
  CHECK(cache.hits() == 4);
}

TEST_CASE_FIXTURE(EqualHashes, "the structures that were used last are kept, as far as their bytes fit") {
  const auto holding = [&](std::int64_t nodes) {
    return PlanCache(
        planner, [](const StepGraph& graph) { return graph.hash(); }, nodes * PlanCache::node_bytes(DeviceType::cpu));
  };
  const auto is_new = [&](PlanCache& plans, double factor) {
    const std::int64_t before = plans.plans();
    static_cast<void>(plans.find(scaled(factor)).ready(arena, session));
    return plans.plans() > before;
  };
  PlanCache two = holding(5);
  CHECK(is_new(two, 1));
  CHECK(is_new(two, 2));
  CHECK_FALSE(is_new(two, 1));
  CHECK(is_new(two, 3));  // in place of 2
  CHECK_FALSE(is_new(two, 1));
  CHECK(is_new(two, 2));

  PlanCache too_small = holding(1);
  CHECK(is_new(too_small, 1));
  CHECK(is_new(too_small, 2));  // 1 was used last, and stays
  CHECK_FALSE(is_new(too_small, 1));
  CHECK(is_new(too_small, 3));
  CHECK_FALSE(is_new(too_small, 1));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they take additional memory
TEST_CASE("plans of many shapes do not keep a copy of the filters each") {
  Session session({.device = "cpu", .streams = 1});
  constexpr std::int64_t kChannels = 512;
  Parameter& filter = session.add("filter", {DType::f32, {kChannels, 3, 3, kChannels}}, ValueKind::parameter);
  std::int64_t before = 0;
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t images = 1; images <= 20; ++images) {
      Step step = session.step();
      const NoGrad no_grad;
      conv2d(Array(DType::f32, {images, 6, 6, kChannels}), filter, {.padding = 1}).keep();
      step.run();
      session.synchronize();
      if (round == 0 && images == 4) before = resident_bytes();
    }
  }
  CHECK(session.stats().plans == 20);
  CHECK(resident_bytes() - before < 2 * kChannels * kChannels * 9 * 4);  // 9 MiB each, 16 transformed, unless shared
}

TEST_CASE("plans go with the parameters of their step") {
  Session session({.device = "cpu", .streams = 1});
  constexpr std::int64_t kChannels = 512;
  std::int64_t before = 0;
  for (int model = 0; model < 20; ++model) {
    Parameter& filter = session.add("filter", {DType::f32, {kChannels, 3, 3, kChannels}}, ValueKind::parameter);
    Step step = session.step();
    const NoGrad no_grad;
    conv2d(Array(DType::f32, {4, 6, 6, kChannels}), filter, {.padding = 1}).keep();
    step.run();
    session.synchronize();
    Parameter* const released = &filter;
    session.release({&released, 1});
    if (model == 1) before = resident_bytes();
  }
  CHECK(resident_bytes() - before < 4 * kChannels * kChannels * 9 * 4);  // 9 MiB each and 9 to 16 for the copy
}
#endif

TEST_CASE("all plans see a filter that has changed, whichever of them copies it to another layout first") {
  Session session({.device = "cpu", .streams = 2});
  constexpr std::int64_t kChannels = 32;
  const ValueDesc desc{DType::f32, {kChannels, 3, 3, kChannels}};
  Parameter& filter = session.add("filter", desc, ValueKind::parameter);
  const auto ones = [](const Shape& shape, float value = 1) {
    return Array::from<float>(std::vector<float>(static_cast<std::size_t>(shape.size()), value), shape);
  };
  for (const float weight : {1.0f, 3.0f, -2.0f}) {
    session.write(filter, ones(desc.shape, weight));
    for (const std::int64_t images : {1, 4, 32, 1}) {
      CAPTURE(images);
      Step step = session.step();
      const NoGrad no_grad;
      const Tensor x = ones({images, 8, 8, kChannels});
      // Twice the same filter, in branches that may run at the same time.
      const Tensor y = conv2d(x, filter, {}) + conv2d(x * 2.0, filter, {});
      const Array result = y.array();
      for (const float element : result.as<float>()) CHECK(element == doctest::Approx(3 * 9 * kChannels * weight));
    }
  }
}

}  // namespace
}  // namespace braid
