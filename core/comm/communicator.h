#pragma once
// Ranks are the processes (or threads) that train one model together. A communicator moves and adds bytes between them
// by collectives: calls that every rank makes.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/dtype.h"
#include "core/comm/collective_call.h"
#include "core/comm/launch.h"
#include "core/device/kernel.h"
#include "core/device/link.h"

namespace braid {

/// Ranks of one training, numbered from 0, that call the same collectives in the same order with the same counts.
/// Buffers are in host memory, or device memory where the engine works on a device. On CPU calls block until the result
/// is there and `where` is ignored; on CUDA calls are enqueued in its stream. One thread at a time may use a
/// communicator, except for abort(). Calls throw CommunicationError if a rank has died, is late, or makes a different
/// call; every later call throws the same error.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The engine: "one", "local", "mpi" or "nccl".
  virtual std::string_view name() const = 0;
  /// What plans assume about the link between ranks.
  virtual Link link() const = 0;
  /// Makes a collective call, one of those below. `source` is what a rank reads and `target` what it writes, which are
  /// the same for a call that works in place.
  virtual void run(const CollectiveCall& call, const void* source, void* target, const LaunchContext& where) = 0;
  /// Sends or receives `data`, on the two ranks of a message alone. Messages between them arrive in the order in which
  /// they were sent.
  virtual void exchange(const Message& message, void* data, const LaunchContext& where);
  /// Every rank's call that is in progress or comes later throws CommunicationError with this reason, as far as the
  /// engine can reach them. May be called from any thread.
  virtual void abort(const std::string& reason) = 0;
  /// Tells other ranks what this one calls, as in "all_gather of 48 bytes", also of another engine that was started
  /// over this one. Does nothing for engines without a heartbeat. May be called from any thread.
  virtual void begin_call(const std::string& /*call*/) {}
  /// The end of a message: ". Other ranks: rank 1 last called barrier (call 7)", or an empty text if nothing is known.
  /// May be called from any thread.
  virtual std::string other_states() { return ""; }

  /// The communicator of this rank's group. Two ranks r are in one group if their r % stride and r / (ranks * stride)
  /// are equal; a group numbers its ranks in ascending order. The first call for a
  /// group is collective: all ranks make it together. The communicator lives as long as this one; a failure in a group
  /// fails all ranks. Throws Error if such groups do not divide the ranks.
  Communicator& among(const RankGroup& group);

  /// Makes every element, in place, the sum over all ranks, added in an order of the engine's choice, with equal bits
  /// on all ranks. Takes f32, f64, i32, and f16 and bf16 where the engine adds them; throws Error for other dtypes.
  void all_reduce(void* data, std::int64_t count, DType dtype, const LaunchContext& where) {
    run({Kind::all_reduce, count, dtype}, data, data, where);
  }
  /// `whole` holds size() parts of `count` elements; `part` becomes the sum of part rank() over all ranks. It may be
  /// the own place in `whole`, whose other parts then hold anything. Dtypes as all_reduce().
  void reduce_scatter(const void* whole, void* part, std::int64_t count, DType dtype, const LaunchContext& where) {
    run({Kind::reduce_scatter, count, dtype}, whole, part, where);
  }
  /// The `part` of rank r, of `bytes` bytes, arrives at whole + r * bytes on all ranks. `part` may be the own place in
  /// `whole`.
  void all_gather(const void* part, void* whole, std::int64_t bytes, const LaunchContext& where) {
    run({Kind::all_gather, bytes}, part, whole, where);
  }
  /// The bytes at source + r * bytes go to rank r, where they arrive at target + rank() * bytes. The buffers are
  /// disjoint.
  void all_to_all(const void* source, void* target, std::int64_t bytes, const LaunchContext& where) {
    run({Kind::all_to_all, bytes}, source, target, where);
  }
  /// Copies the bytes of rank `root` to all ranks, in place.
  void broadcast(void* data, std::int64_t bytes, int root, const LaunchContext& where) {
    run({.kind = Kind::broadcast, .count = bytes, .root = root}, data, data, where);
  }
  /// The `source` of the rank before (from = -1) or after (1) arrives at `target`, which stays as it is on the first or
  /// last rank. The buffers are disjoint.
  void shift(const void* source, void* target, std::int64_t bytes, int from, const LaunchContext& where) {
    run({.kind = Kind::shift, .count = bytes, .root = from}, source, target, where);
  }
  /// Host only: returns once every rank has called it.
  void barrier() { run({Kind::barrier}, nullptr, nullptr, {}); }

 protected:
  using Kind = CollectiveCall::Kind;
  /// Serves destructors of engines whose groups use this one until they end.
  void end_groups() { groups_.clear(); }

 private:
  /// Makes the group of this rank, in which it has the number `place`; `color` is the number of the group.
  virtual std::unique_ptr<Communicator> make_group(const RankGroup& group, int color, int place);

  std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<Communicator>> groups_;  // by ranks and stride
};

/// How long ranks wait for a heartbeat of other ranks, and about as long for a collective.
inline constexpr std::chrono::nanoseconds kCommunicationTimeout = std::chrono::minutes(5);

/// The communicator between the processes of a launch, on CPU: MPI for more than one rank, where all ranks must call
/// this. A lone rank's collectives are copies. Throws CommunicationError if this build has no MPI or MPI does not
/// start, or starts another number of ranks.
std::unique_ptr<Communicator> make_communicator(const Launch& launch,
                                                std::chrono::nanoseconds timeout = kCommunicationTimeout);

}  // namespace braid
