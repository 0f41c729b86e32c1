// The dynamic program for buckets, compared with all possible buckets.

#include "scheduler/buckets.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/random.h"

using namespace braid;
using namespace braid::scheduler;

namespace {

using Buckets = std::vector<std::int32_t>;

CollectiveCall sum(std::int64_t count) {
  return {.kind = CollectiveCall::Kind::all_reduce, .count = count, .dtype = DType::f32};
}

/// When what follows the last bucket ends.
double end(const std::vector<Summand>& summands, const Buckets& buckets, const Link& link) {
  double carried = 0, after = 0;
  auto next = summands.begin();
  for (const std::int32_t size : buckets) {
    double ready = 0;
    std::int64_t count = 0;
    after = 0;
    for (int i = 0; i < size; ++i, ++next) {
      ready = std::max(ready, next->ready);
      after = std::max(after, next->after);
      count += next->communication.calls[0].count;
    }
    carried = std::max(carried, ready) +
              1e6 * seconds(sum(count), static_cast<int>(next[-1].communication.group.ranks), link);
  }
  return carried + after;
}

}  // namespace

TEST_CASE("no buckets end sooner than those of the dynamic program") {
  for (int seed = 0; seed < 300; ++seed) {
    Generator random(9, static_cast<std::uint64_t>(seed));
    const Link link{.latency_seconds = 1e-6 * static_cast<double>(1 + random.below(200)), .bytes_per_second = 1e9};
    const int ranks = 2 + static_cast<int>(random.below(20));
    const int count = 1 + static_cast<int>(random.below(9));
    std::vector<Summand> summands;
    double ready = 0;
    for (int i = 0; i < count; ++i) {
      ready += static_cast<double>(random.below(300));
      summands.push_back({ready,
                          static_cast<double>(random.below(100)),
                          {{ranks}, {sum(static_cast<std::int64_t>(random.below(200'000)))}}});
    }
    double least = std::numeric_limits<double>::infinity();
    for (std::uint32_t ends = 0; ends < 1U << (count - 1); ++ends) {
      Buckets buckets{0};
      for (int i = 0; i < count; ++i) {
        ++buckets.back();
        if (i + 1 < count && (ends >> i & 1U) != 0) buckets.push_back(0);
      }
      least = std::min(least, end(summands, buckets, link));
    }
    const Buckets merged = merge(summands, link);
    CAPTURE(seed);
    REQUIRE(std::accumulate(merged.begin(), merged.end(), 0) == count);
    CHECK(end(summands, merged, link) == doctest::Approx(least));
  }
}

TEST_CASE("there are no buckets of nothing") { CHECK(merge({}, {}).empty()); }
