#pragma once
// Asynchronous SGD with parameter servers (Dean et al., 2012), simulated: every worker computes a gradient and sends it
// to the servers, which update the parameters at once and answer with them. No worker waits for another, so other
// gradients arrive between the parameters that a worker reads and its own update. Messages pass while the worker
// computes: layers can be sent as soon as they are ready. A link carries those of one step after another.

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/costs/cluster.h"

namespace braid::scheduler {

/// Times in microseconds. Workers are numbered in the order of their links.
struct AsynchronousSgd {
  int workers = 1;
  int workers_per_link = 1;  ///< that share a link to the servers
  double computing = 0;      ///< mean duration of a step without communication
  double sending = 0;        ///< how long a gradient occupies the link, and as long the parameters
  double latency = 0;        ///< of a message
  /// Durations of steps are log-normal, with this relative standard deviation.
  double spread = 0;
  double straggler = 1;  ///< computing takes worker 0 this many times as long
  /// Stale-synchronous parallel (Ho et al., 2013): a worker waits while it is more than this many steps ahead of the
  /// slowest. None: it never waits.
  std::optional<int> bound = {};
  std::uint64_t seed = 0;
};

/// Workers on the devices of a cluster, with servers on every host that each have an equal part of the parameters.
/// Throws Error if there are fewer devices.
AsynchronousSgd on_servers(const Cluster& cluster, int workers, std::int64_t parameter_bytes);

/// The staleness of an update is the number of updates by other workers since its worker read the parameters.
struct Staleness {
  std::vector<std::int64_t> updates;  ///< number of updates by their staleness; the last number is not 0
  double mean = 0;
  double mean_of_first = 0;  ///< of worker 0, which may be a straggler
  double updates_per_second = 0;

  int largest() const { return static_cast<int>(updates.size()) - 1; }
};

/// Simulates as many updates by each worker, on average. The first ones, as many as there are workers, do not count.
/// Throws Error unless there are at least 2 updates by each.
Staleness simulate(const AsynchronousSgd& training, int updates_by_each = 100);

}  // namespace braid::scheduler
