#pragma once
// How the steps of a session are divided over several ranks.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/comm/communicator.h"
#include "core/comm/shard_mesh.h"

namespace braid {

/// How many ranks there are along each axis.
struct Mesh {
  int data = 0;  ///< ranks that share the samples of a step; 0: all
};

/// What is divided equally over the ranks, instead of replicated.
enum class Sharded {
  nothing,
  /// Parameters and the state of their optimizer. A step gathers the parameters on every rank before it needs them.
  optimizer,
  parameters,  ///< likewise; the backward pass gathers them again instead of keeping them
};

/// What ranks send of their gradients, each tensor by itself. What is left out is added to the next gradient.
struct Compression {
  enum class Method : std::uint8_t {
    none,
    top_k,     ///< of every 1024 elements, those with the largest magnitudes
    random_k,  ///< as many elements at random, the same on all ranks
    int8,      ///< every element as a multiple of 1/127 of the largest of its 1024
    sign,      ///< the signs, and the mean magnitude of every 1024 elements, which is the weight of their votes
  };
  Method method = Method::none;
  double ratio = 0.01;  ///< the part of the elements that top_k and random_k send, above 0 and at most 1
};

constexpr std::string_view name_of(Compression::Method method) {
  constexpr std::string_view kNames[] = {"none", "top_k", "random_k", "int8", "sign"};
  return kNames[static_cast<int>(method)];
}

/// How layers are divided over the ranks. Layer → for each axis of the mesh of shards, the dimension of its outputs
/// along which it is divided: n (samples), h (height), w (width), c (channels, and with them the layer's parameters),
/// or _ (not at all: every rank computes all of it); as "c", or "hw" on two axes. Other layers are divided as their
/// inputs are: along samples if the map is empty.
struct Strategy : std::map<std::string, std::string, std::less<>> {
  using map::map;
  int second_axis = 1;  ///< ShardMesh::second
  /// A pipeline instead: the layers that stages begin with, but for the first stage, in the order of the forward pass.
  /// Each rank runs a stage of the model and updates its parameters; a lone rank runs all stages.
  std::vector<std::string> stages = {};
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

struct ParallelOptions {
  Mesh mesh = {};
  /// Connects all ranks, which record the same steps. Null: a single rank.
  std::shared_ptr<Communicator> communicator = nullptr;
  /// The number of equal parts that the samples of a step are divided into. If it is set, a training has the same bits
  /// on any number of ranks that divides it. 0: one per rank, and gradients are added in whichever order is fastest.
  int virtual_ranks = 0;
  /// Gradients are communicated together in buckets of this many bytes. 0: the size with the shortest predicted step.
  std::int64_t bucket_bytes = 0;
  /// Shards tensors as ZeRO (Rajbhandari et al., 2020) and PyTorch's FSDP do. Results keep their bits.
  Sharded zero = Sharded::nothing;
  /// Where layers come from in a training by config: data (there are none), owt, layerwise, auto, or a file
  /// (train/run/strategy.h).
  std::string strategy = "data";
  Strategy layers = {};
  /// The order in which the stages of a pipeline run shards (scheduler/pipeline.h): auto, gpipe, 1f1b or zb_h1.
  std::string pipeline = "auto";
  /// Whether batch norm in training takes the statistics of all samples of a step, not of each shard's alone.
  bool sync_batch_norm = false;
  /// Tensors of fewer than 1024 elements (biases, batch norm, small layers) are not compressed.
  Compression compression = {};
  /// The age, in steps, of the gradients that update parameters: ranks add them while they compute newer ones. The
  /// first updates have gradients of 0, and the last gradients are not used.
  int staleness = 0;
  /// Local SGD (Stich, 2019): every rank trains by itself, on its samples. A training by config averages models and the
  /// states of their optimizers once in this many steps (average_over_ranks). 0: ranks add their gradients.
  int average_every = 0;
  /// Elastic averaging (Zhang, Choromanska and LeCun, 2015) in place of plain averages: every average_every steps, a
  /// centre moves by this share of its distance to the mean of the models, and each model by an R-th of the share of
  /// its distance to the centre, on R ranks (WeightAverage::record_elastic). Below 1; 0: ranks take the mean.
  double elastic_beta = 0;
  /// The number of steps of a training by config that are planned and run as one, so that the next step begins while
  /// all-reduces of the previous one still run.
  int steps_per_execution = 1;
  /// How long a rank waits for others, in a training by config.
  std::chrono::nanoseconds timeout = kCommunicationTimeout;

  int ranks() const { return communicator == nullptr ? 1 : communicator->size(); }
  /// The stages of a pipeline, a rank each; 1: there is none.
  int stages() const { return static_cast<int>(layers.stages.size()) + 1; }
  /// The ranks that divide the samples of a step.
  int data_ranks() const { return stages() > 1 ? 1 : ranks(); }
  bool exact() const { return virtual_ranks > 0; }
  int shard_count() const { return exact() ? virtual_ranks : data_ranks(); }
  /// Whether tensors may be distributed; then all ranks must read them together.
  bool splits_tensors() const {
    return ranks() > 1 && (zero != Sharded::nothing || !layers.empty() || stages() > 1 || keeps_gradients());
  }
  /// Whether ranks exchange something else than the sums of their gradients.
  bool exchanges_otherwise() const {
    return staleness > 0 || compression.method != Compression::Method::none || average_every > 0;
  }
  /// Whether every shard keeps gradients, or parts of them, from step to step.
  bool keeps_gradients() const {
    return divides() && (staleness > 0 || compression.method != Compression::Method::none);
  }
  /// The dimensions along which a layer is divided, one for each axis of the mesh; empty: as its inputs are.
  std::string_view dimensions(std::string_view layer) const {
    const auto found = divides() ? layers.find(layer) : layers.end();
    return found == layers.end() ? std::string_view() : found->second;
  }
  /// Whether steps are divided at all.
  bool divides() const { return shard_count() > 1; }
  ShardMesh shard_mesh() const {
    return {.shards = shard_count(), .second = layers.second_axis, .ranks = data_ranks()};
  }
};

inline int rank(const ParallelOptions& options) {
  return options.communicator == nullptr ? 0 : options.communicator->rank();
}
/// The number of this rank among those that divide the samples.
inline int data_rank(const ParallelOptions& options) { return options.stages() > 1 ? 0 : rank(options); }
/// The number of links that a plan uses.
inline int links(const ParallelOptions& options) { return options.ranks() > 1 ? 1 : 0; }

/// Throws Error unless the number of ranks matches the mesh, every rank has the same number of shards, the bytes of a
/// bucket, the staleness and the updates between averages are not negative, gradients that shards keep are of layers
/// divided along samples, and ranks that train by themselves have a shard each; elastic_beta is in [0, 1), and 0
/// unless they do.
inline void check_parallel(const ParallelOptions& options) {
  BRAID_CHECK(options.mesh.data >= 0 && (options.mesh.data == 0 || options.mesh.data == options.ranks()), Error,
              "[parallel] expected as many ranks as mesh.data says, ", options.mesh.data, ", or 0 for all, got ",
              options.ranks(), ": start the program by 'mpirun -n ", options.mesh.data, "'");
  BRAID_CHECK(options.stages() == 1 || options.ranks() == 1 || options.stages() == options.ranks(), Error,
              "[parallel] expected a rank for each of the ", options.stages(), " stages of the pipeline, got ",
              options.ranks());
  BRAID_CHECK(
      options.stages() == 1 ||
          (options.layers.empty() && options.zero == Sharded::nothing && !options.exchanges_otherwise() &&
           !options.sync_batch_norm && options.steps_per_execution == 1 && options.virtual_ranks < 1 << 15),
      Error,
      "[parallel] a pipeline runs whole layers, one step at a time, and adds whole gradients: use no layers divided "
      "along dimensions, zero, sync_batch_norm, steps_per_execution, compression, staleness and average_every, and "
      "fewer than 32768 virtual_ranks");
  BRAID_CHECK(options.virtual_ranks >= 0 && (options.stages() > 1 || options.virtual_ranks % options.ranks() == 0),
              Error, "[parallel] expected virtual_ranks to be a multiple of the number of ranks, ", options.ranks(),
              ", or 0 for one each, got ", options.virtual_ranks);
  BRAID_CHECK(options.layers.second_axis > 0 && options.shard_count() % options.layers.second_axis == 0, Error,
              "[parallel] expected a second axis of the mesh whose shards divide all ", options.shard_count(), ", got ",
              options.layers.second_axis);
  BRAID_CHECK(options.layers.second_axis == 1 || !options.layers.empty(), Error,
              "[parallel] expected layers for a mesh of two axes, got none");
  for (const auto& [layer, dimensions] : options.layers) {
    BRAID_CHECK(dimensions.size() == (options.layers.second_axis > 1 ? 2 : 1), Error, "[parallel] layer '", layer,
                "': expected a dimension for each axis of the mesh, got '", dimensions, "'");
  }
  BRAID_CHECK(options.bucket_bytes >= 0, Error, "[parallel] expected bucket_bytes of at least 0, got ",
              options.bucket_bytes);
  BRAID_CHECK(options.staleness >= 0, Error, "[parallel] expected a staleness of at least 0 steps, got ",
              options.staleness);
  BRAID_CHECK(!options.keeps_gradients() || options.layers.empty(), Error,
              "[parallel] expected layers divided along samples, whose gradients are added, to compress or delay "
              "gradients: use strategy data");
  BRAID_CHECK(options.average_every >= 0, Error, "[parallel] expected average_every of at least 0 updates, got ",
              options.average_every);
  const bool is_alike = options.zero == Sharded::nothing && options.layers.empty() && !options.keeps_gradients() &&
                        !options.sync_batch_norm;
  BRAID_CHECK(options.average_every == 0 || (options.shard_count() == options.ranks() && is_alike), Error,
              "[parallel] average_every is for ranks with a whole model and one shard each: use strategy data, without "
              "virtual_ranks, zero, sync_batch_norm, compression and staleness");
  BRAID_CHECK(options.elastic_beta >= 0 && options.elastic_beta < 1, Error,
              "[parallel] expected an elastic_beta in [0, 1), got ", options.elastic_beta);
  BRAID_CHECK(options.elastic_beta == 0 || options.average_every > 0, Error,
              "[parallel] elastic_beta says how ranks average: set average_every to the steps between averages, got 0");
}

}  // namespace braid
