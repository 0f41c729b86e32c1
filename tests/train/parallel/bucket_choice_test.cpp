// Buckets of gradients, compared with all possible ones.

#include "runtime/compile/ranks/bucket_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/compile/planner.h"
#include "scheduler/check/simulator.h"
#include "tests/effort.h"
#include "tests/train/random_perceptron.h"

using namespace braid;
using namespace braid::testing;

namespace {

using Buckets = std::vector<std::int32_t>;

constexpr int kStreams = 2;

/// A device and its link, on which communicating takes about as long as computing.
DeviceInfo random_device(Generator& random) {
  DeviceInfo device{.name = "a device", .capacity = 1 + static_cast<int>(random.below(2))};
  device.max_width = device.capacity;
  device.flops_per_unit = 2e10;
  device.bytes_per_second = device.bytes_per_second_unit = 1e10;
  device.launch_seconds = 2e-6;
  device.link = {.latency_seconds = std::pow(10, -5.5 + 2 * random.uniform()),
                 .bytes_per_second = std::pow(10, 8.2 + 1.2 * random.uniform()),
                 .units = static_cast<int>(random.below(2))};
  return device;
}

double simulated(const StepGraph& recorded, const ops::Partition& partition, const DeviceInfo& device) {
  StepGraph graph = as_planned(recorded, device, partition).graph;
  scheduler::Costs costs = scheduler::analytic_costs(graph, device, widths(0, device.max_width));
  const scheduler::Problem problem = scheduler::make_problem(std::move(graph), std::move(costs), device, kStreams);
  return scheduler::simulate(problem,
                             scheduler::plan_commands(problem, scheduler::critical_path(problem), "critical_path"))
      .makespan;
}

}  // namespace

TEST_CASE("buckets by plan are within 2 % of the best that there are, and never worse than fixed sizes" *
          doctest::skip(kThreadsOnly)) {
  struct Row {
    int layers;
    int steps;
  };
  double worst = 1;
  int others = 0;
  std::vector<Row> rows = {{1, kOnce ? 1 : 4}, {3, kEveryCase ? 12 : kOnce ? 1 : 4}};
  if (kEveryCase) rows.push_back({5, 1});  // planned more than five hundred times
  for (const auto& [layers, steps] : rows) {
    for (int i = 0; i < steps; ++i) {
      Generator random(static_cast<std::uint64_t>(layers), static_cast<std::uint64_t>(i));
      const StepGraph recorded = random_perceptron(layers, random);
      const DeviceInfo device = random_device(random);
      ops::Partition partition{.ranks = kPerceptronRanks,
                               .shards = i % 3 == 0 ? 2 * kPerceptronRanks : kPerceptronRanks,
                               .exact = i % 3 == 0};
      const auto time = [&](const Buckets& buckets) {
        partition.buckets = buckets;
        return simulated(recorded, partition, device);
      };
      const Buckets chosen =
          with_buckets(recorded, partition, {device, widths(0, device.max_width)}, kStreams, scheduler::critical_path)
              .buckets;
      const double found = time(chosen);

      const int gradients = 2 * layers;
      double best = std::numeric_limits<double>::infinity();
      for (std::uint32_t ends = 0; ends < 1U << (gradients - 1); ++ends) {
        Buckets buckets{0};
        for (int g = 0; g < gradients; ++g) {
          ++buckets.back();
          if ((ends >> g & 1U) != 0) buckets.push_back(0);
        }
        best = std::min(best, time(buckets));
      }
      CAPTURE(layers);
      CAPTURE(i);
      CHECK(found <= 1.02 * best);
      worst = std::max(worst, found / best);
      // Some of these steps need something else than one bucket, or one for each gradient.
      if (std::min(time({gradients}), time(Buckets(static_cast<std::size_t>(gradients), 1))) > 1.01 * best) ++others;
      for (const std::int64_t bytes : {std::int64_t{1} << 20, std::int64_t{25} << 20}) {
        partition.buckets.clear();
        partition.bucket_bytes = bytes;
        CHECK(found <= (1 + 1e-9) * simulated(recorded, partition, device));
      }
    }
  }
  CHECK((kOnce || others > (kEveryCase ? 5 : 0)));
  MESSAGE("the worst takes ", worst, " times as long as the best");
}

TEST_CASE("buckets are chosen with what a profile says about waits" * doctest::skip(!kEveryCase)) {
  int others = 0;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    Generator random(3, seed);
    const StepGraph recorded = random_perceptron(3, random);
    const DeviceInfo device = random_device(random);
    const ops::Partition partition{.ranks = kPerceptronRanks, .shards = kPerceptronRanks};
    const auto chosen = [&](const scheduler::Profile& known) {
      return with_buckets(recorded, partition,
                          {.device = device, .widths = widths(0, device.max_width), .profile = &known}, kStreams,
                          scheduler::critical_path)
          .buckets;
    };
    scheduler::Profile profile;
    const Buckets free = chosen(profile);
    profile.wait_microseconds = 1e4;
    others += chosen(profile) != free;
  }
  CHECK(others > 0);
}
