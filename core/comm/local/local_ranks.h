#pragma once
// Ranks that are threads of one process: for tests, for race detectors, and to try a link that you do not have.

#include <chrono>
#include <memory>
#include <vector>

#include "core/comm/communicator.h"

namespace braid {

/// The communicators of `size` threads, "local". Reductions add in ascending order of ranks; f16 and bf16 are added in
/// f32 and rounded once. Every call is compared with the other ranks': if they differ, or a rank does not arrive within
/// the timeout, all ranks get a CommunicationError that names ranks and calls.
///
/// A link makes collectives take at least the time that plans expect (seconds() in core/comm/collective_call.h), from
/// when the last rank has called. Ranks sleep for the rest of it.
class LocalRanks {
 public:
  /// Throws Error if there is no rank, or a number of the link or the timeout is not positive.
  explicit LocalRanks(int size, const Link& link = {.units = 1},
                      std::chrono::nanoseconds timeout = kCommunicationTimeout);
  ~LocalRanks();
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  /// The communicator of one rank, which lives as long as this object. Throws Error if there is no such rank.
  Communicator& of(int rank) const;

 private:
  class Meeting;
  class Rank;
  std::unique_ptr<Meeting> meeting_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace braid
