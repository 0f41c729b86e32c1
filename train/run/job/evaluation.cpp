#include "train/run/job/evaluation.h"

#include <algorithm>
#include <cmath>

#include "core/text/text.h"
#include "core/text/text_table.h"

namespace braid {

namespace {

struct Recorded {
  Tensor loss, top1, top5;  // means over the batch
  std::int64_t classes;
};

Recorded record(Inference& model, const Batch& batch, DType dtype) {
  const NoGrad no_grad;
  const Layout layout = batch.split ? Layout::split : Layout::replicated;
  const Tensor logits = model(batch.images, dtype, layout);
  const Tensor labels = place(batch.labels, layout);
  const std::int64_t classes = logits.shape()[logits.shape().rank() - 1];
  return {cross_entropy(logits, labels), accuracy(logits, labels),
          accuracy(logits, labels, std::min<std::int64_t>(5, classes)), classes};
}

/// The top-5 accuracy of few classes says nothing.
bool has_top5(const Evaluation& evaluation) { return evaluation.classes > 10; }

/// Plans and perhaps runs the step of a batch. If it does not fit into memory, the error names the key of the config.
template <class Action>
void within_memory(const Batch& batch, const Action& action) {
  try {
    action();
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(message("[eval] the evaluation of ", batch.size(), " images at once does not fit: try a smaller ",
                              "eval.batch_size. ", error.what()));
  }
}

}  // namespace

std::string to_string(const Evaluation& evaluation) {
  return message("loss ", fixed(unsigned_nan(evaluation.loss), 4), ", accuracy ", fixed(100 * evaluation.top1, 2),
                 " %, ", has_top5(evaluation) ? "top-5 " + fixed(100 * evaluation.top5, 2) + " %, " : "",
                 counted(evaluation.samples, "image"));
}

std::string short_text(const Evaluation& evaluation) {
  return message("loss ", fixed(unsigned_nan(evaluation.loss), 3), " acc ", fixed(100 * evaluation.top1, 1), " %",
                 has_top5(evaluation) ? " top-5 " + fixed(100 * evaluation.top5, 1) + " %" : "");
}

Evaluation evaluate(Session& session, Inference& model, Loader& loader, DType dtype,
                    const std::function<bool()>& stop) {
  model.refresh();
  Evaluation sums;
  loader.start_epoch(0);
  Batch batch;
  bool more = loader.next(batch);
  std::int64_t labels = 0;
  struct Running {
    std::int64_t samples = 0, labels = 0;
    Fetched loss, top1, top5;
  } last;
  const auto add = [&] {  // what the last step found, once the next one is running
    if (last.samples == 0) return;
    const auto n = static_cast<double>(last.labels);
    sums.samples += last.samples;
    labels += last.labels;
    sums.loss += n * last.loss.item();
    sums.top1 += std::round(n * last.top1.item());  // exact: a count
    sums.top5 += std::round(n * last.top5.item());
  };
  while (more && !(stop && stop())) {
    Step step = session.step();
    const Recorded recorded = record(model, batch, dtype);
    sums.classes = recorded.classes;
    const std::int64_t ranks = batch.split ? session.parallel().data_ranks() : 1;
    Running running{ranks * batch.size(), ranks * batch.labels.size(), recorded.loss.fetch(), recorded.top1.fetch(),
                    recorded.top5.fetch()};
    within_memory(batch, [&] { step.run(); });
    more = loader.next(batch);  // while the step runs
    add();
    last = std::move(running);
  }
  add();
  BRAID_CHECK(sums.samples > 0 || more, Error, "[evaluate] there is no batch to evaluate");
  const double n = std::max(1.0, static_cast<double>(labels));
  return {.samples = sums.samples,
          .classes = sums.classes,
          .loss = sums.loss / n,
          .top1 = sums.top1 / n,
          .top5 = sums.top5 / n};
}

void plan_evaluation(Session& session, Inference& model, const ImageDataset& dataset, std::int64_t batch_size,
                     DType dtype) {
  const Batch batch = blank_batch(dataset, std::min(batch_size, dataset.size()));
  Step step = session.step();
  record(model, batch, dtype);
  within_memory(batch, [&] { step.plan_ahead(); });
}

}  // namespace braid
