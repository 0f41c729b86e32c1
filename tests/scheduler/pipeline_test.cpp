#include "scheduler/pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "core/base/error.h"
#include "core/base/random.h"
#include "tests/effort.h"
#include "tests/error_of.h"

using namespace braid;
using namespace braid::scheduler;
using braid::testing::error_of;
using braid::testing::kEveryCase;

namespace {

std::vector<StageTimes> equal_stages(int stages) { return {static_cast<std::size_t>(stages), {1, 1, 1, 0}}; }

/// The time in which a stage is idle, relative to the time in which it works.
double bubble(const PipelineOrder& order, int micro_batches) { return order.makespan / (3.0 * micro_batches) - 1; }

/// Random times, some of them 0.
std::vector<StageTimes> random_stages(Generator& random, int stages) {
  std::vector<StageTimes> times(static_cast<std::size_t>(stages));
  for (StageTimes& its : times) {
    for (double* time : {&its.forward, &its.backward, &its.weights, &its.message}) {
      *time = std::max(0.0, static_cast<double>(random.below(11)) - 1);
    }
  }
  return times;
}

/// Checks that every task comes after those that it needs, in the list and in time, and alone on its stage.
void check_order(const PipelineOrder& order, const std::vector<StageTimes>& stages, int micro_batches,
                 bool has_backward) {
  std::map<std::tuple<int, int, Pass>, double> finish;
  std::vector<double> free(stages.size());
  for (const PipelineTask& task : order.tasks) {
    const int stage = task.stage, i = task.micro_batch;
    const Pass pass = task.pass;
    const double start = task.start, end = task.finish;
    const auto s = static_cast<std::size_t>(stage);
    const auto after = [&](int other, Pass its, double message) {
      REQUIRE(finish.contains({other, i, its}));
      CHECK(start >= finish.at({other, i, its}) + message);
    };
    CHECK(start >= free[s]);
    if (pass == Pass::forward && stage > 0) after(stage - 1, pass, stages[s - 1].message);
    if (pass != Pass::forward) after(stage, pass == Pass::weights ? Pass::backward : Pass::forward, 0);
    if (pass == Pass::backward && s + 1 < stages.size()) after(stage + 1, pass, stages[s].message);
    const double backward = stages[s].backward + (order.splits_backward ? 0 : stages[s].weights);
    CHECK(end == start + (pass == Pass::forward    ? stages[s].forward
                          : pass == Pass::backward ? backward
                                                   : stages[s].weights));
    free[s] = end;
    CHECK(finish.emplace(std::tuple{stage, i, pass}, end).second);
  }
  const std::size_t passes = !has_backward ? 1 : order.splits_backward ? 3 : 2;
  CHECK(order.tasks.size() == passes * stages.size() * static_cast<std::size_t>(micro_batches));
  CHECK(order.makespan == std::ranges::max(free));
}

}  // namespace

TEST_CASE("bubbles are (p - 1) / m of the work with gpipe and 1f1b, and (p - 1) / 3m with zb_h1, as published") {
  for (int stages = 2; stages <= 8; ++stages) {
    for (const int micro_batches : {stages, 2 * stages, 4 * stages + 1}) {
      CAPTURE(stages);
      CAPTURE(micro_batches);
      const std::vector<StageTimes> times = equal_stages(stages);
      const double published = (stages - 1.0) / micro_batches;
      CHECK(bubble(pipeline_order("gpipe", times, micro_batches), micro_batches) == doctest::Approx(published));
      CHECK(bubble(pipeline_order("1f1b", times, micro_batches), micro_batches) == doctest::Approx(published));
      CHECK(bubble(pipeline_order("zb_h1", times, micro_batches), micro_batches) == doctest::Approx(published / 3));
      CHECK(bubble(pipeline_order("auto", times, micro_batches), micro_batches) <= published / 3 + 1e-12);
    }
  }
}

TEST_CASE("every order runs tasks after those that they need, and auto is never longer than 1f1b and zb_h1") {
  Generator random(1);
  for (int k = 0; k < (kEveryCase ? 400 : 40); ++k) {
    const int stages = 1 + static_cast<int>(random.below(8)), micro_batches = 1 + static_cast<int>(random.below(16));
    const std::vector<StageTimes> times = random_stages(random, stages);
    CAPTURE(k);
    std::map<std::string, PipelineOrder> orders;
    for (const std::string& name : kPipelines) {
      CAPTURE(name);
      orders[name] = pipeline_order(name, times, micro_batches);
      check_order(orders[name], times, micro_batches, true);
      check_order(pipeline_order(name, times, micro_batches, false), times, micro_batches, false);
    }
    CHECK(orders["auto"].makespan <= orders["1f1b"].makespan);
    CHECK(orders["auto"].makespan <= orders["zb_h1"].makespan);
    for (int stage = 0; stage < stages; ++stage) {
      const auto held = [&](const char* name) { return orders[name].in_flight[static_cast<std::size_t>(stage)]; };
      CHECK(held("gpipe") == micro_batches);
      CHECK(held("1f1b") == std::min(stages - stage, micro_batches));
      CHECK(held("zb_h1") <= stages);
      CHECK(held("auto") <= stages);
    }
  }
}

TEST_CASE("an unknown order is refused, with the most similar name") {
  CHECK(error_of<Error>([] { static_cast<void>(pipeline_order("zb_h2", equal_stages(2), 2)); }) ==
        "[pipeline] unknown order 'zb_h2' (did you mean 'zb_h1'?)");
}

TEST_CASE("the longest of balanced stages is as short as any division makes it") {
  Generator random(2);
  for (int k = 0; k < (kEveryCase ? 300 : 30); ++k) {
    const std::size_t layers = 2 + random.below(7), stages = 1 + random.below(std::min<std::size_t>(layers, 4));
    std::vector<double> times, cut;
    for (std::size_t i = 0; i < layers; ++i) {
      times.push_back(static_cast<double>(random.below(20)));
      cut.push_back(static_cast<double>(random.below(5)));
    }
    const auto longest = [&](const std::vector<std::size_t>& begins) {
      double most = 0;
      for (std::size_t s = 0; s <= begins.size(); ++s) {
        const std::size_t begin = s == 0 ? 0 : begins[s - 1], end = s == begins.size() ? layers : begins[s];
        double time = (begin > 0 ? cut[begin] : 0) + (end < layers ? cut[end] : 0);
        for (std::size_t i = begin; i < end; ++i) time += times[i];
        most = std::max(most, time);
      }
      return most;
    };
    double least = 1e9;
    for (std::uint32_t set = 0; set < 1u << (layers - 1); ++set) {
      std::vector<std::size_t> begins;
      for (std::size_t i = 1; i < layers; ++i) {
        if ((set >> (i - 1) & 1) != 0) begins.push_back(i);
      }
      if (begins.size() + 1 == stages) least = std::min(least, longest(begins));
    }
    const std::vector<std::size_t> found = balanced_stages(times, cut, stages);
    REQUIRE(found.size() + 1 == stages);
    CHECK(std::ranges::is_sorted(found, std::ranges::less_equal{}));
    CHECK(longest(found) == least);
  }
  CHECK(error_of<Error>([] {
          static_cast<void>(balanced_stages(std::vector<double>(2), std::vector<double>(2), 3));
        }) == "[pipeline] expected at most as many stages as the model has layers, 2, got 3");
}
