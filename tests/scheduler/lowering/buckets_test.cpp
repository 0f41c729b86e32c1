// The dynamic program for buckets, compared with all possible buckets.

#include "scheduler/buckets.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "core/base/random.h"

using namespace braid;
using namespace braid::scheduler;

namespace {

using Buckets = std::vector<std::int32_t>;

using Kind = CollectiveCall::Kind;

/// A sum of one of these kinds: by the engine, exact, or scattered.
Communication sum(std::uint32_t kind, std::int64_t ranks, std::int64_t count) {
  if (kind == 0) return {{ranks}, {{.kind = Kind::all_reduce, .count = count, .dtype = DType::f32}}};
  if (kind == 1)
    return {{ranks}, {{.kind = Kind::all_to_all, .count = count}, {.kind = Kind::all_gather, .count = count}}};
  return {{ranks}, {{.kind = Kind::reduce_scatter, .count = count, .dtype = DType::f32}}};
}

/// When what follows the last bucket ends.
double end(const std::vector<Summand>& summands, const Buckets& buckets, const Link& link) {
  double carried = 0, after = 0;
  auto next = summands.begin();
  for (const std::int32_t size : buckets) {
    double ready = 0;
    std::map<std::pair<std::int64_t, Kind>, Communication> together;  // by the ranks and the first call
    after = 0;
    for (int i = 0; i < size; ++i, ++next) {
      ready = std::max(ready, next->ready);
      after = std::max(after, next->after);
      const Communication& its = next->communication;
      const auto [found, is_new] = together.try_emplace({its.group.ranks, its.calls[0].kind}, its);
      for (std::size_t call = 0; !is_new && call < its.calls.size(); ++call) {
        found->second.calls[call].count += its.calls[call].count;
      }
    }
    carried = std::max(carried, ready);
    for (const auto& [key, each] : together) carried += 1e6 * seconds(each, link);
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
      summands.push_back({ready, static_cast<double>(random.below(100)),
                          sum(seed % 2 == 0 ? 0 : random.below(3), seed % 4 == 3 && random.below(2) == 0 ? 2 : ranks,
                              random.below(200'000))});
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
