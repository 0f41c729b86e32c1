#include "train/loss_scale.h"

#include <cmath>

#include "autograd/functions.h"

namespace braid {

LossScale::LossScale(Context& context, const LossScaleOptions& options, float initial)
    : states_(context), update_(std::make_shared<ops::LossScaleUpdate>(options)) {
  BRAID_CHECK(std::isnormal(initial) && initial > 0, Error, "[loss_scale] expected a scale above 0, got ", initial);
  context.write(states_.add_another("loss_scale.scale", {DType::f32, {}}, ValueKind::state), Array::scalar(initial));
  states_.add_another("loss_scale.good_steps", {DType::i32, {}}, ValueKind::state);
  states_.add_another("loss_scale.updates", {DType::i32, {}}, ValueKind::state);
}

Tensor LossScale::operator()(const Tensor& loss) { return braid::scale(loss, *states()[0]); }

void backward(std::vector<Objective> objectives, LossScale* scale) {
  if (scale != nullptr) {
    for (Objective& objective : objectives) objective.loss = (*scale)(objective.loss);
  }
  backward(objectives);
}

LossScale::Update LossScale::record_update(Tape& tape, std::span<const ValueId> gradients) {
  std::vector<ValueId> inputs;
  for (Parameter* state : states()) inputs.push_back(tape.record_parameter(*state));
  inputs.insert(inputs.end(), gradients.begin(), gradients.end());
  const ValueId scale = tape.record(update_, inputs);
  return {.updates = scale + 2, .factor = scale + 3};
}

}  // namespace braid
