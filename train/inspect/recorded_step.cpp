#include "train/inspect/recorded_step.h"

#include <sstream>
#include <utility>

#include "runtime/compile/planner.h"
#include "train/run/strategy.h"

namespace braid {

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
    parallel = {.communicator = ranks_,
                .strategy = parallel.strategy,
                .sync_batch_norm = parallel.sync_batch_norm,
                .compression = parallel.compression,
                .staleness = parallel.staleness,
                .average_every = parallel.average_every};
    const auto dataset = datasets_.get(job.training, Split::train);
    batches_.push_back(blank_batch(*dataset, batch_size > 0 ? batch_size : job.training.batch_size));
  }
  prepare({});
}

/// Makes the models, and again if their tensors would be split otherwise, or shards keep gradients.
void StepRecorder::prepare(const RecordedRanks& ranks) {
  ranks_->count = ranks.count;
  TrainConfig& first = config_.jobs.front().training;
  Strategy layers =
      find_strategy(first, datasets_, ranks.count * batches_.front().size(), [&] { return ranks.device; });
  const ParallelOptions& parallel = first.session.parallel;
  if (session_ != nullptr && layers.empty() && parallel.layers.empty() && !parallel.keeps_gradients()) return;
  first.session.parallel.layers = std::move(layers);
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
  model(cast(batches_[job].images, config_.jobs[job].training.dtype));
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
  const ParallelOptions& parallel = config_.jobs.front().training.session.parallel;
  ops::Partition partition{.ranks = ranks.count,
                           .shards = ranks.count,
                           .second_shards = parallel.layers.second_axis,
                           .local = parallel.average_every > 0};
  if (ranks.with_buckets) partition = ranks.with_buckets(tape.graph(), partition);
  RewrittenGraph planned = as_planned(tape.graph(), partition);
  recorded.partition = std::move(partition);
  recorded.strategy = parallel.layers;
  const std::vector<int> owners = std::exchange(recorded.owners, {});
  for (NodeId node = 0; node < planned.graph.node_count(); ++node) {
    recorded.layers.emplace_back(tape.layer(planned.recorded_node(node)));
    recorded.owners.push_back(owners[static_cast<std::size_t>(planned.recorded_node(node))]);
  }
  recorded.graph = std::move(planned.graph);
  step.discard();
  return recorded;
}

std::string describe(const RecordedStep& step) {
  std::ostringstream out;
  for (std::size_t i = 0; i < step.models.size(); ++i) {
    out << (i == 0 ? "" : " and ") << step.models[i] << ", images " << step.inputs[i];
  }
  return out.str();
}

}  // namespace braid
