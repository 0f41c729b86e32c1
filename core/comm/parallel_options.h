#pragma once
// How the steps of a session are divided over several ranks.

#include <chrono>
#include <cstdint>
#include <memory>

#include "core/base/error.h"
#include "core/comm/communicator.h"

namespace braid {

/// How many ranks there are along each axis.
struct Mesh {
  int data = 0;  ///< that share the samples of a step; 0: all that there are
};

/// What ranks hold an equal part of, instead of all of it.
enum class Sharded {
  nothing,
  /// Parameters and the state of their optimizer. A step gathers the parameters on every rank before it needs them.
  optimizer,
  parameters,  ///< likewise; the backward pass gathers them again instead of keeping them
};

struct ParallelOptions {
  Mesh mesh = {};
  /// Of all ranks, which record the same steps. Null: there is one.
  std::shared_ptr<Communicator> communicator = nullptr;
  /// Equal parts of the samples of a step. With this number given, a training has the same bits on any number of ranks
  /// that divides it. 0: one for every rank, and gradients are added in the order that is fastest.
  int shards = 0;
  /// Gradients are communicated together until they have this many bytes. 0: as many as the step is predicted to be
  /// fastest with.
  std::int64_t bucket_bytes = 0;
  /// As ZeRO (Rajbhandari et al., 2020) and PyTorch's FSDP. Results keep their bits.
  Sharded shard = Sharded::nothing;
  /// Whether batch norm in training takes the statistics of all samples of a step, not of each shard's alone.
  bool sync_batch_norm = false;
  /// Of a training by config: steps that are planned and run as one, so that the next begins while sums of the one
  /// before it are still on their way.
  int steps_per_turn = 1;
  /// Of a training by config: how long a rank waits for others.
  std::chrono::nanoseconds timeout = kCommunicationTimeout;

  int ranks() const { return communicator == nullptr ? 1 : communicator->size(); }
  bool exact() const { return shards > 0; }
  int shard_count() const { return exact() ? shards : ranks(); }
  bool shards_tensors() const { return shard != Sharded::nothing && ranks() > 1; }
  /// Whether steps are divided at all.
  bool divides() const { return shard_count() > 1; }
};

inline int rank(const ParallelOptions& options) {
  return options.communicator == nullptr ? 0 : options.communicator->rank();
}
/// That a plan uses.
inline int links(const ParallelOptions& options) { return options.ranks() > 1 ? 1 : 0; }

/// Throws Error unless there are as many ranks as the mesh has places and an equal number of shards for every rank, and
/// if the bytes of a bucket are negative.
inline void check_parallel(const ParallelOptions& options) {
  BRAID_CHECK(options.mesh.data >= 0 && (options.mesh.data == 0 || options.mesh.data == options.ranks()), Error,
              "[parallel] expected as many ranks as mesh.data says, ", options.mesh.data, ", or 0 for all, got ",
              options.ranks(), ": start the program by 'mpirun -n ", options.mesh.data, "'");
  BRAID_CHECK(options.shards >= 0 && options.shards % options.ranks() == 0, Error,
              "[parallel] expected shards to be a multiple of the number of ranks, ", options.ranks(),
              ", or 0 for one each, got ", options.shards);
  BRAID_CHECK(options.bucket_bytes >= 0, Error, "[parallel] expected bucket_bytes of at least 0, got ",
              options.bucket_bytes);
}

}  // namespace braid
