#pragma once
// A tensor is a name for a value on the tape. Using it records; its elements exist once the step has run.

#include <cstdint>

#include "core/array.h"
#include "core/context.h"

namespace braid {

class Tape;

class Tensor {
 public:
  Tensor() = default;
  /// Records an input of the current step. The array must not be written to before the step has run.
  Tensor(const Array& array);  // NOLINT: implicit, so that a batch can be passed to a model
  /// The newest version of a parameter or state in the current step.
  Tensor(Parameter& parameter);  // NOLINT: implicit, likewise
  Tensor(Tape& tape, ValueId id);

  bool defined() const { return tape_ != nullptr; }
  /// Throw Error if the tensor is undefined or from an earlier step.
  ValueId id() const;
  Tape& tape() const;
  const Shape& shape() const;
  DType dtype() const;

  /// Makes the elements readable after the step. Results that no node reads, and single elements, always are.
  const Tensor& keep() const;
  /// The elements; waits for them, running the step first if need be. Throws Error if they were not kept.
  Array array() const;
  /// The only element, as double. Throws ShapeError if there is not exactly one.
  double item() const;

 private:
  Tape* tape_ = nullptr;
  ValueId id_ = kNoValue;
  std::uint32_t step_ = 0;
};

}  // namespace braid
