#pragma once
// Divides the step of all shards over the stages of a pipeline: every rank gets the nodes of its stage, with messages
// where values cross to another. The shards are the micro-batches, so training has the bits of one rank with as many.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/device/link.h"
#include "core/graph/graph_copy.h"
#include "scheduler/pipeline.h"

namespace braid {

struct Pipelined {
  std::vector<RewrittenGraph> stages;  ///< the step of each rank
  scheduler::PipelineOrder order;
};

struct PipelineSetting {
  std::size_t stages = 1;
  int micro_batches = 1;
  std::string order = "auto";  ///< scheduler::kPipelines
  Link link = {};
  std::vector<double> microseconds = {};  ///< per node of the divided step
  /// The stage whose rank has the newest elements of a persistent tensor (Parameter::stage).
  std::function<std::int16_t(std::int32_t slot)> owner = {};
};

/// The step with sums over shards that are added up as the shards make their parts, instead of all at the end. The bits
/// are the same.
RewrittenGraph with_incremental_sums(const StepGraph& divided);

/// `divided` is the recorded step as one rank runs all shards; its nodes have stages and shards. The order of
/// micro-batches becomes orders between nodes (StepGraph::run_after). Messages of all ranks follow one common order, so
/// no rank waits forever. Every rank gets the results of the recorded step: values that are kept, that no node reads,
/// or that have a single element. Throws Error if a micro-batch needs what is computed from all of them.
Pipelined pipelined(const StepGraph& recorded, const RewrittenGraph& divided, const PipelineSetting& setting);

}  // namespace braid
