#include "autograd/functions/apply.h"

#include <array>

#include "autograd/functions/layout.h"
#include "ops/optimizer/blend.h"

namespace braid {

Tensor apply_op(OpPtr op, std::span<const Tensor> inputs) {
  BRAID_CHECK(op != nullptr, Error, "[apply_op] expected an op, got a null pointer");
  BRAID_CHECK(!inputs.empty(), ShapeError, "[", op->name(), "] expected at least one input");
  Tape& tape = inputs[0].tape();
  std::vector<ValueId> ids;
  for (const Tensor& input : inputs) {
    BRAID_CHECK(&input.tape() == &tape, Error, "[", op->name(), "] its inputs belong to different sessions");
    ids.push_back(input.id());
  }
  return tape.tensor(tape.record(std::move(op), ids));
}

std::vector<Tensor> outputs_of(const Tensor& output) {
  Tape& tape = output.tape();
  const NodeId producer = tape.graph().value(output.id()).producer;
  BRAID_CHECK(producer != kNoNode, Error, "[outputs_of] expected the output of an op, got an input or a parameter");
  std::vector<Tensor> outputs;
  for (int i = 0; i < tape.graph().node(producer).output_count; ++i) {
    outputs.push_back(tape.tensor(tape.graph().output(producer, i)));
  }
  return outputs;
}

Tensor detach(const Tensor& x) {
  const NoGrad no_grad(x.tape());
  return reshape(x, x.shape());
}

void assign(Parameter& parameter, const Tensor& value) {
  Tape& tape = value.tape();
  const NoGrad no_grad(tape);
  BRAID_CHECK(value.dtype() == parameter.desc().dtype && value.shape() == parameter.shape(), ShapeError, "[assign] '",
              parameter.name(), "' is ", parameter.desc().dtype, ' ', parameter.shape(), ", got ", value.dtype(), ' ',
              value.shape());
  const ValueId before = tape.record_parameter(parameter);
  const ValueId coefficients = tape.record_input(Array::from<double>({0, 1}, {2}));
  tape.record(std::make_shared<ops::Blend>(), std::array{coefficients, before, value.id()});
}

}  // namespace braid
