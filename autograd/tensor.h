#pragma once
// A tensor is a name for a value on the tape. Using it records; its elements exist once the step has run.

#include <cstdint>
#include <memory>

#include "core/array.h"
#include "core/context.h"

namespace braid {

class Tape;
struct Delivery;

/// Elements that a step brings to the host when it ends. They stay readable while later steps run.
class Fetched {
 public:
  Fetched() = default;
  explicit Fetched(std::shared_ptr<Delivery> delivery) : delivery_(std::move(delivery)) {}

  /// The elements; waits for their step, but not for later ones. Throws what went wrong in it, Error if it never ran.
  Array array() const;
  /// The only element, as double. Throws ShapeError if there is not exactly one.
  double item() const;

 private:
  std::shared_ptr<Delivery> delivery_;
};

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
  /// Asks for the elements before the step runs, so that the next step can be launched before they are read.
  Fetched fetch() const;

 private:
  Tape* tape_ = nullptr;
  ValueId id_ = kNoValue;
  std::uint32_t step_ = 0;
};

}  // namespace braid
