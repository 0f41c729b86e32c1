#include "train/weight_average.h"

#include <algorithm>
#include <utility>

#include "ops/blend.h"
#include "train/optimizer.h"

namespace braid {

WeightAverage::WeightAverage(Context& context, std::vector<Parameter*> tensors, double decay)
    : context_(context), tensors_(std::move(tensors)), decay_(decay) {
  BRAID_CHECK(decay >= 0 && decay < 1, Error, "[weight_average] expected a decay in [0, 1), got ", decay);
  std::erase_if(tensors_, [](const Parameter* tensor) { return !is_floating(tensor->desc().dtype); });
  for (const Parameter* tensor : tensors_) {
    averages_.push_back(&context.add(message(kPrefix, tensor->name()), tensor->desc(), ValueKind::state));
  }
}

WeightAverage::~WeightAverage() { context_.release(averages_); }

void WeightAverage::record(std::int64_t updates) {
  Tape& tape = Tape::current();
  const NoGrad no_grad;
  const auto n = static_cast<double>(updates);
  const double decay = std::min(decay_, n / (9 + n));
  const ValueId coefficients =
      tape.record_input(Array::from<float>({static_cast<float>(decay), static_cast<float>(1 - decay)}, {2}));
  const OpPtr blend = std::make_shared<ops::Blend>();
  for_buckets(
      averages_.size(), [&](std::size_t i) { return tensors_[i]->shape().size(); },
      [&](std::size_t begin, std::size_t end) {
        std::vector<ValueId> inputs{coefficients};
        for (std::size_t i = begin; i < end; ++i) {
          inputs.push_back(tape.record_parameter(*averages_[i]));
          inputs.push_back(tape.record_parameter(*tensors_[i]));
        }
        tape.record(blend, inputs);
      });
}

void WeightAverage::exchange() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Array own = context_.read(*tensors_[i]);
    context_.write(*tensors_[i], context_.read(*averages_[i]));
    context_.write(*averages_[i], own);
  }
}

}  // namespace braid
