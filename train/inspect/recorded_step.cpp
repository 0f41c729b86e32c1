#include "train/inspect/recorded_step.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "runtime/compile/planner.h"
#include "runtime/compile/ranks/bucket_choice.h"
#include "train/run/strategy.h"

namespace braid {

namespace {

/// The layers of the nodes before the first gradient.
std::vector<std::string> layers_in_order(const Tape& tape) {
  const StepGraph& graph = tape.graph();
  std::vector<std::string> layers;
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    if (graph.value(graph.node(node).first_output).kind == ValueKind::gradient) break;
    const std::string& layer = tape.layer(node);
    if (!layer.empty() && std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
  }
  return layers;
}

}  // namespace

/// A communicator for rank 0 of `count` ranks, none of which exists.
class StepRecorder::ImaginedRanks final : public Communicator {
 public:
  int count = 1;

  int rank() const override { return 0; }
  int size() const override { return count; }
  std::string_view name() const override { return "imagined"; }
  Link link() const override { return {}; }
  void run(const CollectiveCall&, const void*, void*, const LaunchContext&) override {
    throw Error("[plan] there are no ranks: a recorded step does not run");
  }
  void abort(const std::string&) override {}

 private:
  std::unique_ptr<Communicator> make_group(const RankGroup& group, int, int) override {
    auto made = std::make_unique<ImaginedRanks>();
    made->count = static_cast<int>(group.ranks);
    return made;
  }
};

StepRecorder::StepRecorder(const RunConfig& config, std::int64_t batch_size, bool forward)
    : config_(config), forward_(forward), ranks_(std::make_shared<ImaginedRanks>()) {
  for (JobConfig& job : config_.jobs) {
    ParallelOptions& parallel = job.training.session.parallel;
    micro_batches_ = parallel.virtual_ranks;
    keeps_whole_tensors_ = parallel.zero == Sharded::nothing;
    parallel = {.communicator = ranks_,
                .strategy = parallel.strategy,
                .pipeline = parallel.pipeline,
                .sync_batch_norm = parallel.sync_batch_norm,
                .compression = parallel.compression,
                .staleness = parallel.staleness,
                .average_every = parallel.average_every,
                .elastic_beta = parallel.elastic_beta};
    if (batch_size > 0) job.training.batch_size = batch_size;
    if (job.training.data.is_synthetic()) {  // only the shape of an image matters; pairs need two
      job.training.data.size = std::min<std::int64_t>(job.training.data.size, 2);
    }
    batches_.push_back(blank_batch(*datasets_.get(job.training, Split::train), job.training.batch_size));
  }
  prepare({});
}

/// Makes the models, and again if their tensors would be split otherwise, or shards keep gradients.
void StepRecorder::prepare(const RecordedRanks& ranks) {
  ranks_->count = ranks.count;
  TrainConfig& first = config_.jobs.front().training;
  ParallelOptions& parallel = first.session.parallel;
  parallel.virtual_ranks = 0;
  const std::int64_t batch_size = ranks.count * first.batch_size;
  parallel.steps_per_execution = ranks.steps;
  const bool may_be_pipeline = config_.jobs.size() == 1 && ranks.are_alike && keeps_whole_tensors_;
  Strategy layers = find_strategy(
      first, datasets_, batch_size, [&] { return ranks.device; },
      may_be_pipeline ? std::optional(micro_batches_) : std::nullopt);
  if (session_ != nullptr && layers == Strategy{} && parallel.layers == Strategy{} && !parallel.keeps_gradients())
    return;
  parallel.layers = std::move(layers);
  const bool is_pipeline = parallel.stages() > 1;
  if (is_pipeline) {
    BRAID_CHECK(config_.jobs.size() == 1, Error,
                "[plan] a pipeline runs one model: expected a config without a list of jobs");
    BRAID_CHECK(micro_batches_ == 0 || batch_size % micro_batches_ == 0, Error, "[plan] expected ", batch_size,
                " images on all ranks to be a multiple of parallel.virtual_ranks, ", micro_batches_);
    parallel.virtual_ranks = micro_batches_ > 0 ? micro_batches_ : default_micro_batches(batch_size, parallel.stages());
  }
  const std::int64_t images = is_pipeline ? batch_size : first.batch_size;
  if (batches_.front().images.shape()[0] != images) {
    batches_.front() = blank_batch(*datasets_.get(first, Split::train), images);
  }
  learners_.clear();
  session_ = std::make_unique<Session>(recording_options(first.session));
  for (const JobConfig& job : config_.jobs) {
    learners_.emplace_back(job.training, *session_, *datasets_.get(job.training, Split::train));
  }
}

void StepRecorder::record_job(std::size_t job, int steps) {
  batches_[job].split = ranks_->count > 1;
  const bool averages = session_->parallel().average_every > 0;
  if (!forward_) {
    for (int k = 0; k < steps; ++k) learners_[job].record(batches_[job], {0, 1, averages});
    return;
  }
  const NoGrad no_grad;
  Module& model = learners_[job].model();
  model.eval();
  const bool is_pipeline = session_->parallel().stages() > 1;
  const Tensor images = place(batches_[job].images, is_pipeline ? Layout::split : Layout::replicated);
  model(cast(images, config_.jobs[job].training.dtype));
}

RecordedStep StepRecorder::record(const RecordedRanks& ranks) {
  prepare(ranks);
  RecordedStep recorded;
  Step step = session_->step();
  const Tape& tape = session_->tape();
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    const TrainConfig& job = config_.jobs[i].training;
    recorded.models.push_back(job.model.title());
    recorded.jobs.push_back(job.name);
    recorded.inputs.push_back(batches_[i].images.shape());
    record_job(i, ranks.steps);
    recorded.owners.resize(static_cast<std::size_t>(tape.graph().node_count()), static_cast<int>(i));
  }
  recorded.forward_layers = layers_in_order(tape);
  const ParallelOptions& parallel = config_.jobs.front().training.session.parallel;
  const scheduler::CostModel model = cost_model(session_->options(), ranks.device);
  if (parallel.stages() > 1) {
    Pipelined made = pipelined(tape.graph(), parallel, model, *session_);
    recorded.order = std::move(made.order);
    for (const RewrittenGraph& stage : made.stages) recorded.stages.push_back(stage.graph);
    finish(recorded, std::move(made.stages.front()));
    step.discard();
    return recorded;
  }
  ops::Partition partition{.ranks = ranks.count,
                           .shards = ranks.count,
                           .second_shards = parallel.layers.second_axis,
                           .local = parallel.average_every > 0};
  if (ranks.count > 1) partition = with_buckets(tape.graph(), partition, model, ranks.streams, ranks.policy);
  RewrittenGraph planned = as_planned(tape.graph(), ranks.device, partition, model.direct);
  recorded.partition = std::move(partition);
  finish(recorded, std::move(planned));
  step.discard();
  return recorded;
}

/// Adds the planned graph of a rank.
void StepRecorder::finish(RecordedStep& recorded, RewrittenGraph planned) {
  recorded.strategy = session_->parallel().layers;
  const std::vector<int> owners = std::exchange(recorded.owners, {});
  for (NodeId node = 0; node < planned.graph.node_count(); ++node) {
    recorded.layers.emplace_back(session_->tape().layer(planned.recorded_node(node)));
    recorded.owners.push_back(owners[static_cast<std::size_t>(planned.recorded_node(node))]);
  }
  recorded.graph = std::move(planned.graph);
}

std::string describe(const RecordedStep& step) {
  std::ostringstream out;
  for (std::size_t i = 0; i < step.models.size(); ++i) {
    out << (i == 0 ? "" : " and ") << step.models[i] << ", images " << step.inputs[i];
  }
  return out.str();
}

}  // namespace braid
