#pragma once
// A tensor is a name for a value on the tape. Using it records; its elements exist once the step has run.

#include <cstdint>
#include <memory>

#include "core/graph/array.h"
#include "core/graph/context.h"

namespace braid {

class Tape;
struct Delivery;

/// Where a tensor finds its tape. It outlives the tape and may then serve another, so the step tells whether a tensor
/// belongs to what the tape records now.
struct TapeHandle {
  Tape* tape = nullptr;
  std::uint32_t step = 0;  ///< counts steps, over all tapes that it served
};

/// Elements that a step brings to the host when it ends. They stay readable while later steps run.
class [[nodiscard]] Fetched {
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

  bool defined() const { return handle_ != nullptr; }
  /// Throw Error if the tensor is undefined, from an earlier step, or if its session has been destroyed.
  ValueId id() const;
  Tape& tape() const;
  Shape shape() const;
  DType dtype() const;

  /// Makes the elements readable after the step. Results that no node reads, and single elements, always are.
  const Tensor& keep() const;
  /// Makes backward() compute the gradient with respect to an input, or to a result of detach(), that is not used yet.
  /// Throws Error otherwise.
  const Tensor& require_gradient() const;
  /// The elements; waits for them, running the step first if necessary. Throws Error if they were not kept.
  Array array() const;
  /// The only element, as double. Throws ShapeError if there is not exactly one.
  double item() const;
  /// Asks for the elements before the step runs, so that the next step can be launched before they are read.
  Fetched fetch() const;

 private:
  friend class Tape;
  Tensor(const TapeHandle& handle, ValueId id) : handle_(&handle), id_(id), step_(handle.step) {}

  const TapeHandle* handle_ = nullptr;
  ValueId id_ = kNoValue;
  std::uint32_t step_ = 0;
};

/// Records an input of the current step that may have another layout on the ranks of a training than a full copy on
/// each: if it is split, `array` has the samples of this rank, an equal number on every rank, and the tensor has those
/// of all. With one rank, and without shards, it is Tensor(array). Throws ShapeError if a rank has shards, and the
/// samples cannot be divided evenly among them.
Tensor place(const Array& array, Layout layout);

}  // namespace braid
