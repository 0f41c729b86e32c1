#include "train/report/measured_step.h"

#include <deque>

#include "train/inspect/bench/bench.h"
#include "train/report/plan/trace.h"
#include "train/run/learner.h"

namespace braid {

scheduler::PlanView measured_step(const RunConfig& config) {
  constexpr int kWarm = 5;
  Session session(config.jobs.front().training.session);
  DatasetPool datasets;
  std::deque<Learner> learners;
  std::vector<Batch> batches;
  for (const JobConfig& job : config.jobs) {
    const auto dataset = datasets.get(job.training, Split::train);
    learners.emplace_back(job.training, session, *dataset);
    batches.push_back(first_batch(dataset, job.training));
  }
  for (int warm = 0;; warm = session.choosing() ? 0 : warm + 1) {
    Step step = session.step();
    std::vector<int> owners;
    for (std::size_t i = 0; i < learners.size(); ++i) {
      learners[i].record(batches[i]);
      owners.resize(static_cast<std::size_t>(session.tape().graph().node_count()), static_cast<int>(i));
    }
    if (warm < kWarm) {
      step.run();
      continue;
    }
    const RunTimes times = step.measure();
    scheduler::PlanView view = view_of(session, step, times);
    view.title = config.name;
    for (const JobConfig& job : config.jobs) view.jobs.push_back(job.training.name);
    for (NodeId node = 0; node < step.graph().node_count(); ++node) {
      view.owners.push_back(owners[static_cast<std::size_t>(step.recorded_node(node))]);
    }
    return view;
  }
}

}  // namespace braid
