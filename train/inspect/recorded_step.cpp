#include "train/inspect/recorded_step.h"

#include <deque>
#include <sstream>
#include <utility>

#include "runtime/planner.h"
#include "train/run/learner.h"

namespace braid {

namespace {

/// Rank 0 of `size` ranks, none of which exists.
class ImaginedRanks final : public Communicator {
 public:
  explicit ImaginedRanks(int size) : size_(size) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  std::string_view name() const override { return "imagined"; }
  Link link() const override { return {}; }
  void all_reduce(void*, std::int64_t, DType, const LaunchContext&) override { refuse(); }
  void reduce_scatter(const void*, void*, std::int64_t, DType, const LaunchContext&) override { refuse(); }
  void all_gather(const void*, void*, std::int64_t, const LaunchContext&) override { refuse(); }
  void all_to_all(const void*, void*, std::int64_t, const LaunchContext&) override { refuse(); }
  void broadcast(void*, std::int64_t, int, const LaunchContext&) override { refuse(); }
  void barrier() override { refuse(); }
  void abort(const std::string&) override {}

 private:
  [[noreturn]] static void refuse() { throw Error("[plan] there are no ranks: a recorded step does not run"); }

  int size_;
};

}  // namespace

RecordedStep record_step(const RunConfig& config, std::int64_t batch_size, bool forward, const RecordedRanks& ranks) {
  SessionOptions options = config.jobs.front().training.session;
  options.device = "cpu";  // nothing runs
  options.costs.clear();   // they belong to the device that the step is planned for
  options.parallel = {};
  if (ranks.count > 1) options.parallel.communicator = std::make_shared<ImaginedRanks>(ranks.count);
  Session session(options);
  DatasetPool datasets;
  std::deque<Learner> learners;
  RecordedStep recorded;
  std::vector<Batch> batches;
  for (const JobConfig& job : config.jobs) {
    const auto dataset = datasets.get(job.training, Split::train);
    learners.emplace_back(job.training, session, *dataset);
    batches.push_back(blank_batch(*dataset, batch_size > 0 ? batch_size : job.training.batch_size));
    batches.back().split = ranks.count > 1;
    recorded.models.push_back(job.training.model.title());
    recorded.jobs.push_back(job.training.name);
    recorded.inputs.push_back(batches.back().images.shape());
  }
  Step step = session.step();
  for (std::size_t i = 0; i < learners.size(); ++i) {
    if (forward) {
      const NoGrad no_grad;
      Module& model = learners[i].model();
      model.eval();
      model(cast(batches[i].images, config.jobs[i].training.dtype));
    } else {
      learners[i].record(batches[i]);
    }
    recorded.owners.resize(static_cast<std::size_t>(session.tape().graph().node_count()), static_cast<int>(i));
  }
  ops::Partition partition{.ranks = ranks.count, .shards = ranks.count};
  if (ranks.buckets) partition.buckets = ranks.buckets(session.tape().graph(), partition);
  ops::RewrittenGraph planned = as_planned(session.tape().graph(), partition);
  recorded.buckets = std::move(partition.buckets);
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
