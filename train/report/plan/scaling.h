#pragma once
// How a step scales with the number of ranks, as numbers and as a picture.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace braid {
class Json;  // core/text/json.h
}

namespace braid::scheduler {

/// A step on a number of ranks.
struct ScaleRow {
  int ranks = 1;
  double makespan = 0;       ///< simulated, microseconds
  double communicating = 0;  ///< how long a rank's link is in use, microseconds
  std::size_t buckets = 0;
  double efficiency = 1;  ///< images per second of a rank, relative to those of one rank alone

  /// Images per second of all ranks, relative to those of one rank alone.
  double speedup() const { return ranks * efficiency; }
};

/// Ranks on a cluster, each with the same batch size.
struct Scaling {
  std::string cluster;         ///< as "box: 2 hosts with 4 devices each"
  std::vector<ScaleRow> rows;  ///< from one rank up; empty if the step is of one rank
};

/// The rows, whose members are named like the columns of `braid plan --json`.
Json rows_of(const Scaling& scaling);

/// An SVG with two curves over the number of ranks: efficiency, and the speedup next to the ideal one. It follows the
/// colours that the reader prefers, light or dark. Throws Error if there are fewer than two rows.
std::string scaling_picture(std::string_view title, const Scaling& scaling);

}  // namespace braid::scheduler
