#pragma once
// What functions on tensors are made of, and what they have in common with custom ops.

#include "autograd/tape.h"

namespace braid {

/// Any op, including custom ones (braid/op.h) → its first output. Throws Error unless all inputs, at least one, belong
/// to one session.
Tensor apply_op(OpPtr op, std::span<const Tensor> inputs);
inline Tensor apply_op(OpPtr op, std::initializer_list<Tensor> inputs) {
  return apply_op(std::move(op), std::span(inputs.begin(), inputs.size()));
}

/// All outputs of the op that computed this one, in order. Throws Error if it is an input or a parameter.
std::vector<Tensor> outputs_of(const Tensor& output);
/// The same elements, through which no gradient flows; no copy.
Tensor detach(const Tensor& x);

/// Makes the value, of the same type, the parameter's or state's content from here on, in this step and later ones.
/// Custom optimizers end with it. No gradient flows through it.
void assign(Parameter& parameter, const Tensor& value);
/// block(x), whose activations are not kept but recomputed in the backward pass: trades time for memory, as
/// torch.utils.checkpoint. The results have the same bits, but on a GPU a session that is not deterministic, or has a
/// memory limit, may run a recomputed convolution by another algorithm, which rounds differently.
template <class Block>
Tensor checkpoint(Block&& block, const Tensor& x) {
  const ValueId first = x.tape().graph().value_count();
  const Tensor y = block(x);
  BRAID_CHECK(&y.tape() == &x.tape(), Error, "[checkpoint] the block returned a tensor of another session");
  x.tape().recompute_since(first, y.id());
  return y;
}

}  // namespace braid
