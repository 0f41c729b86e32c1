#pragma once
// An op is a small immutable object: its attributes and the rules of one operation. Rules are stated once here and used
// everywhere: infer (shapes), gradient (emits ordinary nodes), work (costs), hash (plan cache).

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/hash.h"
#include "core/kernel.h"

namespace braid {

using ValueId = std::int32_t;
using NodeId = std::int32_t;
inline constexpr ValueId kNoValue = -1;
inline constexpr NodeId kNoNode = -1;

/// What infer says of one output.
struct OutputDesc {
  DType dtype = DType::f32;
  Shape shape;
  /// Input whose bytes this output may take over if nobody else needs them any more; -1 for none.
  int reuses = -1;
  /// Persistent input that this output is the next version of: same bytes, always; -1 for none.
  int overwrites = -1;
  /// Input that this output is another view of: same bytes, and the node does nothing; -1 for none.
  int views = -1;
};

/// Arithmetic and memory traffic of a node, the inputs of the analytic cost model.
struct Work {
  double flops = 0;
  double bytes = 0;
  double blocks = 0;  ///< thread blocks that a GPU kernel would run it with; 0: as many as the bytes suggest
};

class GradientContext;
class Op;
using OpPtr = std::shared_ptr<const Op>;

class Op {
 public:
  virtual ~Op() = default;
  /// The name in error messages, traces and kernel tables, as "conv2d_backward_filter". Unique per class.
  virtual std::string_view name() const = 0;
  /// Appends one OutputDesc per output. Throws ShapeError.
  virtual void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const = 0;
  /// Adds the attributes (not the name) to the hash. Ops without attributes keep the default.
  virtual void hash(Hash&) const {}
  /// Default: no arithmetic, every input read and every output written once.
  virtual Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const;
  /// Emits the nodes that compute the gradients of the inputs. Default: throws, for ops that have none.
  virtual void gradient(GradientContext& context) const;
};

/// What a gradient rule may use. Implemented by the backward pass.
class GradientContext {
 public:
  virtual ~GradientContext() = default;
  virtual int input_count() const = 0;
  virtual ValueId input(int i) const = 0;
  virtual ValueId output(int i) const = 0;
  virtual ValueDesc desc(ValueId value) const = 0;
  /// Gradient with respect to an output; kNoValue if nothing depends on it.
  virtual ValueId output_gradient(int i) const = 0;
  /// Whether anyone wants the gradient with respect to input i. Rules skip the others.
  virtual bool needs(int i) const = 0;
  /// Records a node and returns its first output; further outputs follow with consecutive ids.
  virtual ValueId emit(OpPtr op, std::span<const ValueId> inputs) = 0;
  virtual void set_input_gradient(int i, ValueId gradient) = 0;
  /// The same for a gradient that is part of a wider value: its channels (last axis) from `first` on, as many as input
  /// i has.
  virtual void set_input_gradient_slice(int i, ValueId wide, std::int64_t first) = 0;

  ValueId emit(OpPtr op, std::initializer_list<ValueId> inputs) {
    return emit(std::move(op), std::span(inputs.begin(), inputs.size()));
  }
};

}  // namespace braid
