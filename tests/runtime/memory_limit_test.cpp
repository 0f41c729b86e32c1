// Steps under a limit of memory: how little they need, what is reported, and what can still be read.

#include "scheduler/memory/memory_limit.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "autograd/functions.h"
#include "core/text/text.h"
#include "models/registry.h"
#include "runtime/compile/planner.h"
#include "runtime/profile/profiler.h"
#include "tests/effort.h"
#include "tests/error_of.h"
#include "tests/models/small_model.h"

namespace braid {
namespace {

constexpr std::int64_t kBatch = 8;
const Shape kImage{32, 32, 3};

std::unique_ptr<Module> small(std::string_view name, Session& session) {
  return models::make_model(name, session, small_model(kImage));
}

Tensor record_loss(Module& model) {
  const Tensor images = Tensor(noise({kBatch, kImage[0], kImage[1], kImage[2]}));
  const Tensor loss = cross_entropy(model(images), labels(kBatch));
  backward(loss);
  return loss;
}

/// A training step of a model, recorded, with everything that planning needs.
struct Recorded {
  explicit Recorded(std::string_view name) {
    Session session({.device = "cpu", .streams = 1, .intra_op_threads = 1});
    const auto model = small(name, session);
    const Step step = session.step();
    record_loss(*model);
    graph = as_planned(session.tape().graph(), session.backend().info()).graph;
    costs = scheduler::analytic_costs(graph, session.backend().info(), std::vector{1});
    make_kernels(graph, kernel_target(session, session.options()), costs);
  }
  scheduler::LimitedStep plan(std::int64_t limit, int streams = 1) const {
    return plan_step(scheduler::make_problem(graph, costs, streams, 4), scheduler::critical_path, "critical_path",
                     limit);
  }

  StepGraph graph;
  scheduler::Costs costs;
};

struct Arenas {
  std::int64_t least, free;
};

/// The arena of a step without a limit, and the smallest that is found.
Arenas arenas(std::string_view name) {
  const Recorded recorded(name);
  return {recorded.plan(1).plan.arena_bytes, recorded.plan(0).plan.arena_bytes};
}

std::size_t repeated_nodes(const scheduler::LimitedStep& step) {
  return step.recomputed.has_value() ? step.recomputed->nodes.size() - step.recomputed->first_nodes().size() : 0;
}

SessionOptions within(std::int64_t limit) {
  return {.device = "cpu", .streams = 1, .intra_op_threads = 1, .memory_limit = limit};
}

TEST_CASE("recomputation lets a training step run with less memory, at any limit in between" *
          doctest::skip(testing::kThreadsOnly)) {
  for (const std::string_view name : {"resnet20", "vgg16_bn", "densenet121", "googlenet", "mobilenet_v2"}) {
    if (!testing::kEveryCase && name != "resnet20" && name != "googlenet") continue;  // minutes
    CAPTURE(name);
    const Recorded recorded(name);
    for (const int streams : {1, 2}) {
      const scheduler::LimitedStep free = recorded.plan(0, streams), least = recorded.plan(1, streams);
      CHECK(free.traded.empty());
      CHECK_FALSE(free.recomputed.has_value());
      CHECK_FALSE(least.fits);
      REQUIRE(least.recomputed.has_value());
      CHECK(least.plan.arena_bytes < free.plan.arena_bytes);
      for (int part = streams - 1; part < 4; part += 2) {
        const std::int64_t limit = least.plan.arena_bytes + (free.plan.arena_bytes - least.plan.arena_bytes) * part / 4;
        const scheduler::LimitedStep step_within = recorded.plan(limit, streams);
        CHECK(step_within.fits);
        CHECK(step_within.plan.arena_bytes <= limit);
        CHECK_FALSE(step_within.traded.empty());
        if (name == "densenet121" && limit == least.plan.arena_bytes) {  // more is recomputed the lower the limit
          const std::int64_t higher = limit + (free.plan.arena_bytes - limit) * 80 / 100;
          CHECK(repeated_nodes(recorded.plan(higher)) < repeated_nodes(step_within));
        }
        if (!step_within.recomputed.has_value()) continue;
        CHECK(comma_list(step_within.traded, "; ").find("recomputation: ") != std::string::npos);
        CHECK(verify_plan(step_within.recomputed->graph, step_within.problem.costs, step_within.plan).empty());
      }
    }
  }
}

TEST_CASE("cheap values are recomputed before concurrency is given up, where that is faster" *
          doctest::skip(testing::kThreadsOnly)) {
  const Recorded recorded("googlenet");
  const scheduler::LimitedStep free = recorded.plan(0, 4);
  int faster = 0;
  for (const int percent : {95, 90, 80}) {
    CAPTURE(percent);
    const std::int64_t limit = free.plan.arena_bytes * percent / 100;
    const scheduler::LimitedStep step = recorded.plan(limit, 4);
    const scheduler::LimitedPlan other = plan_within(free.problem, scheduler::critical_path, "critical_path", limit);
    REQUIRE(step.fits);
    if (other.fits) CHECK(step.plan.makespan <= other.plan.makespan);
    if (!other.fits || step.plan.makespan == other.plan.makespan) continue;
    ++faster;
    CHECK(step.traded.back().starts_with("recomputation: "));
    CHECK(verify_plan(step.recomputed->graph, step.problem.costs, step.plan).empty());
  }
  CHECK(faster > 0);
}

TEST_CASE("a step that fits the limit gets the same plan as without a limit") {
  const Recorded recorded("resnet20");
  const scheduler::LimitedStep free = recorded.plan(0), limited = recorded.plan(free.plan.arena_bytes);
  CHECK(limited.plan == free.plan);
  CHECK(limited.traded.empty());
}

TEST_CASE("a limit that cannot be kept is an error with the numbers, and the session stays usable") {
  Session session(within(1 << 20));
  const auto model = small("googlenet", session);
  for (int i = 0; i < 2; ++i) {
    Step step = session.step();
    record_loss(*model);
    const std::string text = testing::error_of<OutOfMemory>([&] { step.run(); });
    CAPTURE(text);
    CHECK(text.starts_with(
        "[memory] the step does not fit into the memory limit of 1.00 MiB: the smallest arena found takes "));
    CHECK(testing::contains(text, " MiB, with "));
    CHECK(testing::contains(text, "recomputation: "));
  }
  Step step = session.step();
  CHECK((Tensor(Array::scalar(2.0f)) + Tensor(Array::scalar(3.0f))).item() == 5);
}

TEST_CASE("a negative memory limit is refused") {
  CHECK_THROWS_WITH_AS(Session(within(-1)), "[session] expected a memory limit of at least 0 bytes (0: none), got -1",
                       Error);
}

TEST_CASE("every structure of changing steps respects the limit") {
  const auto [least, free] = arenas("mobilenet_v2");
  const auto losses = [](std::int64_t limit) {
    Session session({.device = "cpu", .streams = 2, .intra_op_threads = 1, .memory_limit = limit});
    const std::unique_ptr<Module> models[] = {small("mobilenet_v2", session), small("resnet20", session)};
    std::vector<double> list;
    for (const int which : {0, 1, 0, 1, 0}) {
      Step step = session.step();
      const Tensor loss = record_loss(*models[which]);
      step.run();
      list.push_back(loss.item());
      const bool repeats = step.graph().node_count() > session.tape().graph().node_count();
      CHECK(repeats == (limit != 0 && which == 0));
      if (limit == 0) continue;
      CHECK(step.plan().arena_bytes <= limit);
      CHECK(session.stats().arena_bytes <= static_cast<std::size_t>(limit));
    }
    CHECK(session.stats().plans == 2);
    return list;
  };
  CHECK(losses((least + free) / 2) == losses(0));
}

TEST_CASE("automatic streams respect the limit") {
  const auto [least, free] = arenas("resnet20");
  for (const std::int64_t limit : {least, free, 4 * free}) {
    Session session({.device = "cpu", .streams = 0, .intra_op_threads = 1, .memory_limit = limit});
    const auto model = small("resnet20", session);
    for (int i = 0; i < 3; ++i) {
      Step step = session.step();
      record_loss(*model);
      step.run();
      CHECK(step.plan().arena_bytes <= limit);
    }
  }
}

TEST_CASE("measured nodes of a step with recomputation are those of its own graph") {
  const auto [least, free] = arenas("resnet20");
  Session session(profiling_options(within(least + (free - least) / 8), 1));
  const auto model = small("resnet20", session);
  Profiler profiler(session);
  Step step = session.step();
  record_loss(*model);
  profiler.run(step);
  bool repeats = false;
  for (NodeId id = 0; id < step.graph().node_count(); ++id) {
    const std::string_view op = step.graph().node(id).op->name();
    const std::string_view recorded = session.tape().graph().node(step.recorded_node(id)).op->name();
    CHECK((op == recorded || (op == "batch_norm_apply" && recorded == "batch_norm")));
    repeats = repeats || op != recorded;
  }
  CHECK(repeats);
  const scheduler::Profile profile = profiler.profile();
  CHECK(std::ranges::any_of(profile.measurements, [](const scheduler::Measurement& m) {
    return m.implementation.node.starts_with("batch_norm_apply");
  }));
}

}  // namespace
}  // namespace braid
