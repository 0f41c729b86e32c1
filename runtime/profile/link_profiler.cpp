#include "runtime/profile/link_profiler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <utility>

#include "core/base/median.h"

namespace braid {

namespace {

using Kind = CollectiveCall::Kind;

constexpr std::int64_t kGrowth = 4;

/// The collectives of steps with buffers of `floats` elements on each rank.
std::vector<CollectiveCall> calls(const Communicator& ranks, std::int64_t floats) {
  const std::int64_t part = floats / ranks.size(), bytes = part * static_cast<std::int64_t>(sizeof(float));
  return {{Kind::all_reduce, floats, DType::f32},
          {Kind::reduce_scatter, part, DType::f32},
          {Kind::all_gather, bytes},
          {Kind::all_to_all, bytes}};
}

/// How long this rank is in each of the calls. The first, which may set up connections, does not count.
std::vector<double> times_of(Communicator& ranks, const CollectiveCall& call, std::vector<float>& data,
                             std::vector<float>& other, int runs, const std::function<double()>& now) {
  std::vector<double> seconds;
  for (int run = 0; run <= runs; ++run) {
    ranks.barrier();
    const double begin = now();
    ranks.run(call, data.data(), call.kind == Kind::all_reduce ? data.data() : other.data(), {});
    if (run > 0) seconds.push_back(now() - begin);
  }
  return seconds;
}

/// The median over runs of the shortest time over ranks, which is that of the rank that called last.
double median_of_last(Communicator& ranks, const std::vector<double>& own) {
  std::vector<double> all(own.size() * static_cast<std::size_t>(ranks.size())), last;
  ranks.all_gather(own.data(), all.data(), static_cast<std::int64_t>(own.size() * sizeof(double)), {});
  for (std::size_t run = 0; run < own.size(); ++run) {
    last.push_back(all[run]);
    for (std::size_t i = run; i < all.size(); i += own.size()) last.back() = std::min(last.back(), all[i]);
  }
  return median(std::move(last));
}

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<CallTime> time_collectives(Communicator& ranks, std::int64_t most_bytes, int runs,
                                       const std::function<double()>& now) {
  BRAID_CHECK(ranks.size() > 1, Error, "[profile] expected at least 2 ranks to measure the link between them");
  const std::int64_t most = most_bytes / static_cast<std::int64_t>(sizeof(float));
  std::vector<float> data(static_cast<std::size_t>(most)), other(data.size());
  std::vector<CallTime> times;
  for (std::int64_t floats = ranks.size(); floats <= most; floats *= kGrowth) {
    for (const CollectiveCall& call : calls(ranks, floats)) {
      times.push_back({call, median_of_last(ranks, times_of(ranks, call, data, other, runs, now))});
    }
  }
  return times;
}

Link fitted_link(std::span<const CallTime> times, int ranks, Link start) {
  BRAID_CHECK(!times.empty(), Error, "[profile] expected times of collectives to fit a link to");
  const auto error = [&](const Link& link) {
    double sum = 0;
    for (const CallTime& time : times) sum += std::pow(std::log(seconds(time.call, ranks, link) / time.seconds), 2);
    return sum;
  };
  // A search from any link that has both costs: change one by a factor while that helps, then by a smaller one.
  Link best{.latency_seconds = start.latency_seconds > 0 ? start.latency_seconds : 1e-6,
            .bytes_per_second = std::isfinite(start.bytes_per_second) ? start.bytes_per_second : 1e9,
            .units = start.units};
  double least = error(best);
  for (double factor = 4; factor > 1.0001;) {
    Link from = best;
    for (const double change : {factor, 1 / factor}) {
      for (const auto& [latency, bandwidth] : {std::pair(change, 1.0), std::pair(1.0, change)}) {
        const Link link{latency * from.latency_seconds, bandwidth * from.bytes_per_second, from.units};
        if (const double its = error(link); its < least) std::tie(best, least) = std::pair(link, its);
      }
    }
    if (best == from) factor = std::sqrt(factor);
  }
  return best;
}

}  // namespace braid
