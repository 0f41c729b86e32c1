#include "train/loss_scale.h"

#include <cmath>

#include "autograd/functions.h"

namespace braid {

LossScale::LossScale(Context& context, const LossScaleOptions& options, float initial)
    : context_(context), update_(std::make_shared<ops::LossScaleUpdate>(options)) {
  BRAID_CHECK(std::isnormal(initial) && initial > 0, Error, "[loss_scale] expected a scale above 0, got ", initial);
  const auto state = [&](std::string_view name, DType dtype) {
    return &context.add(message("loss_scale.", name), {dtype, {}}, ValueKind::state);
  };
  state_ = {state("scale", DType::f32), state("good_steps", DType::i32), state("updates", DType::i32)};
  context.write(*state_[0], Array::scalar(initial));
}

Tensor LossScale::operator()(const Tensor& loss) { return braid::scale(loss, *state_[0]); }

LossScale::Update LossScale::record_update(Tape& tape, std::span<const ValueId> gradients) {
  std::vector<ValueId> inputs;
  for (Parameter* state : state_) inputs.push_back(tape.record_parameter(*state));
  inputs.insert(inputs.end(), gradients.begin(), gradients.end());
  const ValueId scale = tape.record(update_, inputs);
  return {.updates = scale + 2, .factor = scale + 3};
}

}  // namespace braid
