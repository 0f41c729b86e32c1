#include "train/inspect/recorded_step.h"

#include <deque>
#include <sstream>
#include <utility>

#include "runtime/compile/planner.h"
#include "train/run/learner.h"

namespace braid {

namespace {

SessionOptions recording_options(const RunConfig& config, std::shared_ptr<Communicator> ranks) {
  SessionOptions options = config.jobs.front().training.session;
  options.device = "cpu";  // nothing runs
  options.draw_weights = false;
  options.costs.clear();  // they belong to the device that the step is planned for
  options.parallel = {.communicator = std::move(ranks)};
  return options;
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
};

struct StepRecorder::Recording {
  const RunConfig config;
  const bool forward;
  const std::shared_ptr<ImaginedRanks> ranks = std::make_shared<ImaginedRanks>();
  Session session{recording_options(config, ranks)};
  DatasetPool datasets = {};
  std::deque<Learner> learners = {};
  std::vector<Batch> batches = {};

  void record_job(std::size_t job, int steps) {
    batches[job].split = ranks->count > 1;
    if (!forward) {
      for (int k = 0; k < steps; ++k) learners[job].record(batches[job]);
      return;
    }
    const NoGrad no_grad;
    Module& model = learners[job].model();
    model.eval();
    model(cast(batches[job].images, config.jobs[job].training.dtype));
  }
};

StepRecorder::StepRecorder(const RunConfig& config, std::int64_t batch_size, bool forward)
    : recording_(new Recording{config, forward}) {
  for (const JobConfig& job : config.jobs) {
    const auto dataset = recording_->datasets.get(job.training, Split::train);
    recording_->learners.emplace_back(job.training, recording_->session, *dataset);
    recording_->batches.push_back(blank_batch(*dataset, batch_size > 0 ? batch_size : job.training.batch_size));
  }
}

StepRecorder::~StepRecorder() = default;

RecordedStep StepRecorder::record(const RecordedRanks& ranks) {
  Session& session = recording_->session;
  recording_->ranks->count = ranks.count;
  RecordedStep recorded;
  Step step = session.step();
  for (std::size_t i = 0; i < recording_->batches.size(); ++i) {
    const TrainConfig& job = recording_->config.jobs[i].training;
    recorded.models.push_back(job.model.title());
    recorded.jobs.push_back(job.name);
    recorded.inputs.push_back(recording_->batches[i].images.shape());
    recording_->record_job(i, ranks.steps);
    recorded.owners.resize(static_cast<std::size_t>(session.tape().graph().node_count()), static_cast<int>(i));
  }
  ops::Partition partition{.ranks = ranks.count, .shards = ranks.count};
  if (ranks.with_buckets) partition = ranks.with_buckets(session.tape().graph(), partition);
  RewrittenGraph planned = as_planned(session.tape().graph(), partition);
  recorded.partition = std::move(partition);
  const std::vector<int> owners = std::exchange(recorded.owners, {});
  for (NodeId node = 0; node < planned.graph.node_count(); ++node) {
    recorded.layers.emplace_back(session.tape().layer(planned.recorded_node(node)));
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
