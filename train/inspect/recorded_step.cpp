#include "train/inspect/recorded_step.h"

#include <deque>
#include <sstream>

#include "runtime/trace.h"
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
  for (const JobConfig& job : config.jobs) {
    const auto dataset = datasets.get(job.training, Split::train);
    learners.emplace_back(job.training, session, *dataset);
    const Shape image = dataset->image_shape();
    const std::int64_t images = batch_size > 0 ? batch_size : job.training.batch_size;
    recorded.models.push_back(job.training.model.name);
    recorded.jobs.push_back(job.training.name);
    recorded.inputs.push_back({images, image[0], image[1], image[2]});
  }
  const Step step = session.step();
  for (std::size_t i = 0; i < learners.size(); ++i) {
    // The content of the images does not matter.
    const Batch batch{Array(DType::f32, recorded.inputs[i]), Array(DType::i32, {recorded.inputs[i][0]})};
    if (forward) {
      const NoGrad no_grad;
      Module& model = learners[i].model();
      model.eval();
      model(cast(batch.images, config.jobs[i].training.dtype));
    } else {
      learners[i].record(batch);
    }
    recorded.owners.resize(static_cast<std::size_t>(session.tape().graph().node_count()), static_cast<int>(i));
  }
  recorded.graph = with_kept_results(session.tape().graph());
  recorded.layers = layers_of(session.tape());
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
