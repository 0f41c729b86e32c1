#include "train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace braid {

namespace {

/// Evaluation mode for a while.
class EvaluationMode {
 public:
  explicit EvaluationMode(Module& model) : model_(model), training_(model.training()) { model.eval(); }
  ~EvaluationMode() { model_.train(training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Module& model_;
  bool training_;
};

}  // namespace

std::string to_string(const Evaluation& evaluation) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(4) << "test loss " << evaluation.loss << std::setprecision(2) << ", accuracy "
      << 100 * evaluation.top1 << " %, top-5 " << 100 * evaluation.top5 << " %, " << evaluation.samples << " images";
  return out.str();
}

Evaluation evaluate(Session& session, Module& model, Loader& loader, DType dtype, const std::function<bool()>& stop) {
  const EvaluationMode mode(model);
  Evaluation sums;
  loader.start_epoch(0);
  Batch batch;
  bool more = loader.next(batch);
  while (more && !(stop && stop())) {
    Step step = session.step();
    const NoGrad no_grad;
    const Tensor logits = model(cast(batch.images, dtype));
    const Tensor labels = batch.labels;
    const Tensor loss = cross_entropy(logits, labels);
    const Tensor top1 = accuracy(logits, labels);
    const Tensor top5 = accuracy(logits, labels, std::min<std::int64_t>(5, logits.shape()[1]));
    step.run();
    const std::int64_t size = batch.size();
    more = loader.next(batch);  // while the step runs
    const auto n = static_cast<double>(size);
    sums.samples += size;
    sums.loss += n * loss.item();
    sums.top1 += std::round(n * top1.item());  // exact: a count
    sums.top5 += std::round(n * top5.item());
  }
  BRAID_CHECK(sums.samples > 0 || more, Error, "[evaluate] there is nothing to evaluate on");
  const double n = std::max(1.0, static_cast<double>(sums.samples));
  return {.samples = sums.samples, .loss = sums.loss / n, .top1 = sums.top1 / n, .top5 = sums.top5 / n};
}

}  // namespace braid
