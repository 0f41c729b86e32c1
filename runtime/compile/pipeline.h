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

/// Adds what shards have of a tensor step by step, each as soon as it is there, with the same bits as at once.
RewrittenGraph with_incremental_sums(const StepGraph& divided);

/// `divided` is the recorded step as one rank runs all its shards: its nodes have stages and shards. In the result,
/// micro-batches follow one another in the given order, by orders between their nodes (StepGraph::run_after). Messages
/// of all ranks follow one common order, so that no rank waits forever. Results of the recorded step that have a single
/// element, that are kept or that no node reads are there on every rank. Throws Error if a micro-batch needs what is
/// computed from all of them.
Pipelined pipelined(const StepGraph& recorded, const RewrittenGraph& divided, const PipelineSetting& setting);

}  // namespace braid
