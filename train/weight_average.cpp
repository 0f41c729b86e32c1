#include "train/weight_average.h"

#include <algorithm>
#include <utility>

#include "train/optimizer.h"

namespace braid {

WeightAverage::WeightAverage(Context& context, std::vector<Parameter*> tensors, double decay)
    : averages_(context), tensors_(std::move(tensors)), decay_(decay) {
  BRAID_CHECK(decay >= 0 && decay < 1, Error, "[weight_average] expected a decay in [0, 1), got ", decay);
  check_not_null("weight_average", tensors_);
  std::erase_if(tensors_, [](const Parameter* tensor) { return !is_floating(tensor->desc().dtype); });
  for (const Parameter* tensor : tensors_) {
    averages_.add_another(message(kPrefix, tensor->name()), tensor->desc(), ValueKind::state);
  }
}

void WeightAverage::record(std::int64_t updates) {
  Tape& tape = Tape::current();
  Tape::Transaction transaction(tape);
  const NoGrad no_grad;
  const auto n = static_cast<double>(updates);
  const double decay = std::min(decay_, n / (9 + n));
  record_blends(tape, decay, 1 - decay, averages(), [&](std::size_t i) { return tape.record_parameter(*tensors_[i]); });
  transaction.commit();
}

void WeightAverage::start() {
  Context& context = averages_.context();
  for (std::size_t i = 0; i < tensors_.size(); ++i) context.write(*averages()[i], context.read(*tensors_[i]));
}

void WeightAverage::record_elastic() {
  Tape& tape = Tape::current();
  Tape::Transaction transaction(tape);
  const NoGrad no_grad;
  const double beta = 1 - decay_, alpha = beta / tape.context().parallel().ranks();
  record_blends(tape, 1 - alpha, alpha, tensors_, [&](std::size_t i) { return tape.record_parameter(*averages()[i]); });
  const double rest = beta / (1 - alpha);  // their mean is nearer to the averages now, by the factor 1 - alpha
  record_blends(tape, 1 - rest, rest, averages(), [&](std::size_t i) { return mean_over_ranks(*tensors_[i]).id(); });
  transaction.commit();
}

void WeightAverage::exchange() {
  Context& context = averages_.context();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Array own = context.read(*tensors_[i]);
    context.write(*tensors_[i], context.read(*averages()[i]));
    context.write(*averages()[i], own);
  }
}

}  // namespace braid
