#pragma once
// What a device reaches at its best, and the least time that a step could take there (Williams, Waterman and Patterson
// 2009, "Roofline").

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/op.h"
#include "runtime/session.h"

namespace braid {

struct Peaks {
  double flops_per_second = 0;  ///< of a large matrix product in f32
  /// Bytes that sums of two vectors read and write, ascending, and how many per second: the first fit into caches.
  std::vector<std::pair<double, double>> bytes_per_second = {};

  /// The least time, microseconds: arithmetic and memory each at their peak, at once.
  double floor(const Work& work) const;
  /// Whether arithmetic takes more of it.
  bool is_bound_by_arithmetic(const Work& work) const;

 private:
  double memory_seconds(double bytes) const;
};

/// The larger of each, of peaks measured at different times.
Peaks best_of(Peaks first, const Peaks& second);

/// Measures them with Braid's kernels, on the device and the cores of these options.
Peaks measure_peaks(const SessionOptions& options);

/// Nanoseconds until a core sees what another one has written. They take a few times as long if the two share no cache,
/// and on a virtual machine that can change at any time. Uses two cores for a few milliseconds.
double measure_handover();

/// The nodes of one op in a step. Times are those of the whole device: a node on half of its cores counts half.
struct OpRoofline {
  std::string op;
  std::int64_t nodes = 0;
  double floor = 0;       ///< microseconds
  double arithmetic = 0;  ///< of that, of nodes that are bound by arithmetic
  double measured = 0;    ///< microseconds; medians over several steps
};

struct NodeRoofline {
  std::string node;  ///< scheduler::node_signature
  double floor, measured;
};

struct Roofline {
  Peaks peaks;
  std::string clock = {};                ///< RunTimes::clock
  std::vector<OpRoofline> ops = {};      ///< by measured - floor, the largest first
  std::vector<NodeRoofline> nodes = {};  ///< as they began in the last step
  double step = 0;  ///< from the start of the first node to the end of the last one, microseconds; the median
};

std::string to_text(const Roofline& roofline);

}  // namespace braid
