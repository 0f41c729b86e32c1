#include "scheduler/check/asynchronous.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"

namespace braid::scheduler {

namespace {

/// The servers and their workers.
class ServedWorkers {
 public:
  explicit ServedWorkers(const AsynchronousSgd& training)
      : training_(training),
        workers_(static_cast<std::size_t>(training.workers)),
        free_(workers_.size()),
        deviation_(std::sqrt(std::log1p(training.spread * training.spread))),
        random_(training.seed) {
    for (std::size_t worker = 0; worker < workers_.size(); ++worker) begin_step(worker, 0);
  }

  struct Update {
    double time = 0;
    std::size_t worker = 0;
    std::int64_t staleness = 0;
  };
  Update next() {
    const auto [time, worker] = arrivals_.top();
    arrivals_.pop();
    const std::int64_t staleness = version_++ - workers_[worker].read;
    ++workers_[worker].steps;
    answer(worker, time);
    return {time, worker, staleness};
  }

 private:
  struct Worker {
    std::int64_t read = 0;  // the number of updates in the parameters that it computes with
    std::int64_t steps = 0;
    bool waits = false;
  };

  /// Sends the parameters to a worker that has made an update, or lets it wait; and to those that waited for it.
  void answer(std::size_t worker, double time) {
    if (!training_.bound) return begin_step(worker, time);
    workers_[worker].waits = true;
    const std::int64_t slowest = std::ranges::min(workers_, {}, &Worker::steps).steps;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].waits && workers_[i].steps - slowest <= *training_.bound) begin_step(i, time);
    }
  }

  void begin_step(std::size_t worker, double time) {
    workers_[worker].waits = false;
    workers_[worker].read = version_;
    const double mean = training_.computing * (worker == 0 ? training_.straggler : 1);
    const double factor = std::exp(deviation_ * (double{random_.normal()} - deviation_ / 2));  // its mean is 1
    double& free = free_[worker / static_cast<std::size_t>(training_.workers_per_link)];
    free = std::max(free, time) + 2 * training_.sending;
    arrivals_.emplace(std::max(time + factor * mean, free) + 2 * training_.latency, worker);
  }

  const AsynchronousSgd& training_;
  std::vector<Worker> workers_;
  std::vector<double> free_;  // per link: when it has carried what the steps so far send
  double deviation_;          // of the logarithms of durations
  Generator random_;
  std::int64_t version_ = 0;
  using Arrival = std::pair<double, std::size_t>;  // of a gradient: time and worker
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
};

}  // namespace

AsynchronousSgd on_servers(const Cluster& cluster, int workers, std::int64_t parameter_bytes) {
  Cluster with_servers = cluster;
  with_servers.has_servers = true;
  const Link link = link_of(with_servers, workers);
  const int sharing = workers > cluster.devices ? cluster.devices : 1;  // which Link::server_share adds up
  const double bytes = static_cast<double>(parameter_bytes) * link.server_share / sharing;
  return {.workers = workers,
          .workers_per_link = sharing,
          .sending = 1e6 * bytes / link.bytes_per_second,
          .latency = 1e6 * link.latency_seconds};
}

Staleness simulate(const AsynchronousSgd& training, int updates_by_each) {
  BRAID_CHECK(training.workers >= 1 && training.workers_per_link >= 1 && updates_by_each >= 2, Error,
              "[asynchronous] expected at least 1 worker, 1 worker on a link and 2 updates by each, got ",
              training.workers, ", ", training.workers_per_link, " and ", updates_by_each);
  ServedWorkers servers(training);
  double begin = 0, end = 0;
  for (int i = 0; i < training.workers; ++i) begin = servers.next().time;
  Staleness result;
  const std::int64_t counted = std::int64_t{updates_by_each - 1} * training.workers;
  std::int64_t sum = 0, sum_of_first = 0, updates_of_first = 0;
  for (std::int64_t i = 0; i < counted; ++i) {
    const auto [time, worker, staleness] = servers.next();
    end = time;
    const auto at = static_cast<std::size_t>(staleness);
    if (result.updates.size() <= at) result.updates.resize(at + 1);
    ++result.updates[at];
    sum += staleness;
    if (worker > 0) continue;
    sum_of_first += staleness;
    ++updates_of_first;
  }
  const auto mean = [](std::int64_t total, std::int64_t of) {
    return of > 0 ? static_cast<double>(total) / static_cast<double>(of) : 0;
  };
  result.mean = mean(sum, counted);
  result.mean_of_first = mean(sum_of_first, updates_of_first);
  result.updates_per_second = 1e6 * static_cast<double>(counted) / (end - begin);
  return result;
}

}  // namespace braid::scheduler
