#include "train/inspect/recorded_step.h"

#include <deque>
#include <sstream>
#include <utility>

#include "runtime/planner.h"
#include "train/run/learner.h"

namespace braid {

RecordedStep record_step(const RunConfig& config, std::int64_t batch_size, bool forward) {
  SessionOptions options = config.jobs.front().training.session;
  options.device = "cpu";  // nothing runs
  options.costs.clear();   // they belong to the device that the step is planned for
  Session session(options);
  DatasetPool datasets;
  std::deque<Learner> learners;
  RecordedStep recorded;
  std::vector<Batch> batches;
  for (const JobConfig& job : config.jobs) {
    const auto dataset = datasets.get(job.training, Split::train);
    learners.emplace_back(job.training, session, *dataset);
    batches.push_back(blank_batch(*dataset, batch_size > 0 ? batch_size : job.training.batch_size));
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
  ops::RewrittenGraph planned = as_planned(session.tape().graph());
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
