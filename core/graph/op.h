#pragma once
// An op is a small immutable object: its attributes and the rules of one operation. Rules are stated once here and used
// everywhere: infer (shapes), gradient (emits ordinary nodes), work (costs), recompute (for memory), axes (several
// ranks). Caches, profiles and reports identify an op by its name and attributes alone (core/graph/attributes.h).

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "core/comm/collective_call.h"
#include "core/device/kernel.h"
#include "core/graph/attributes.h"
#include "core/graph/layout.h"

namespace braid {

using ValueId = std::int32_t;
using NodeId = std::int32_t;
inline constexpr ValueId kNoValue = -1;
inline constexpr NodeId kNoNode = -1;

/// The result of infer for one output.
struct OutputDesc {
  DType dtype = DType::f32;
  Shape shape;
  /// Input whose bytes this output may take over if no other node needs them any more; -1 for none.
  int reuses = -1;
  /// Persistent input that this output is the next version of: same bytes, always; -1 for none.
  int overwrites = -1;
  /// Input that this output is another view of: same bytes, and the node does nothing; -1 for none.
  int views = -1;
  static constexpr std::string_view kNames[] = {"dtype", "shape", "reuses", "overwrites", "views"};
};

/// Arithmetic and memory traffic of a node, the inputs of the analytic cost model.
struct Work {
  double flops = 0;
  double bytes = 0;
  /// Products [rows,depth]·[depth,columns] that the arithmetic consists of, such as one for each group; 0: none.
  double products = 0, rows = 0, columns = 0, depth = 0;
  bool splits = false;  ///< whether GPU libraries have kernels that split the sums over the depth among thread blocks
  static constexpr std::string_view kNames[] = {"flops", "bytes", "products", "rows", "columns", "depth", "splits"};
  Work with_flops(double count) const {
    Work work = *this;
    work.flops = count;
    return work;
  }
};

class GradientContext;
class Op;
using OpPtr = std::shared_ptr<const Op>;

/// How the outputs of a node are recomputed, with the same bits.
struct Recomputation {
  /// The op that recomputes them; its outputs are the first outputs of the node. Null: the op itself.
  OpPtr op = nullptr;
  /// (i, o): input i is then output o of the first computation.
  std::vector<std::pair<int, int>> inputs_from_outputs = {};
  int outputs = std::numeric_limits<int>::max();  ///< how many of the node's outputs are computed
};

/// Ops derive from OpWith, below.
class Op {
 public:
  virtual ~Op() = default;
  /// The name in error messages, traces and kernel tables, as "conv2d_backward_filter". Unique per class.
  virtual std::string_view name() const = 0;
  /// Appends one OutputDesc per output. Throws ShapeError.
  virtual void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const = 0;
  /// Default: no arithmetic, every input read and every output written once.
  virtual Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const;
  /// Emits the nodes that compute the gradients of the inputs. Called only if at least one input needs one. Default:
  /// throws, for ops that have none.
  virtual void gradient(GradientContext& context) const;
  /// How to recompute the outputs where memory is short, instead of keeping them. Only for ops that cost little more
  /// than moving their operands, never a convolution, a matrix product or a loss. Default: never.
  virtual std::optional<Recomputation> recompute() const { return std::nullopt; }
  /// Which axes its values have in common, from which follows how it is divided. Default: none; then every rank
  /// computes all outputs from all of the inputs.
  virtual OpAxes axes(const NodeValues& /*node*/) const { return {}; }
  /// The op that computes one shard's part along an axis, with this shape of the first output. Parts of windows include
  /// their halos, so it needs no padding there. Null: the op itself. Default: the same with that shape as its attribute
  /// `shape`, if it has one.
  virtual OpPtr for_part(const Shape& output, char axis) const = 0;
  /// How ranks compute their parts of the outputs. Default: by its axes.
  virtual std::optional<Divided> divide(const Division& node) const { return divide_by_axes(*this, node); }
  /// How ranks run the node together, over a link. A plan runs such nodes in one stream, in an order
  /// that is the same on all ranks. Default: none.
  virtual Communication communication(std::span<const ValueDesc> /*inputs*/,
                                      std::span<const ValueDesc> /*outputs*/) const {
    return {};
  }

  /// Adds the attributes (not the name) to the hash.
  virtual void hash(Hash& hash) const = 0;
  /// Whether the other is of the same class and has the same attributes.
  virtual bool equals(const Op& other) const = 0;
  virtual void print_attributes(std::ostream& out, Notation notation) const = 0;

 private:
  Op() = default;
  template <class Derived, NamedAttributes Attributes>
  friend class OpWith;
};

/// The name and, unless there are none, the attributes, as "scale{factor: 0.5}".
std::ostream& operator<<(std::ostream& out, const Op& op);

/// The base of every op: class Scale final : public OpWith<Scale, ScaleAttributes>. Its attributes are all the members
/// that an op has.
template <class Derived, NamedAttributes Attributes = NoAttributes>
class OpWith : public Op {
 public:
  explicit OpWith(Attributes attributes) : attributes_{std::move(attributes)} {
    static_assert(sizeof(Derived) == sizeof(OpWith), "an op has a member that is not among its attributes");
  }
  /// Takes the members of the attributes.
  template <class... Fields>
  explicit OpWith(Fields&&... fields) : OpWith(Attributes{std::forward<Fields>(fields)...}) {}
  const Attributes& attributes() const { return attributes_; }

  OpPtr for_part(const Shape& output, char /*axis*/) const override {
    if constexpr (requires { attributes_.shape; }) {
      Attributes attributes = attributes_;
      attributes.shape = output;
      return std::make_shared<Derived>(std::move(attributes));
    } else {
      return nullptr;
    }
  }
  void hash(Hash& hash) const final { attribute::add_to(hash, attributes()); }
  bool equals(const Op& other) const final {
    return typeid(other) == typeid(Derived) &&
           attribute::equal(attributes(), static_cast<const OpWith&>(other).attributes());
  }
  void print_attributes(std::ostream& out, Notation notation) const final {
    attribute::print(out, attributes(), notation);
  }

 private:
  /// Aligned, so that no member of Derived fits into padding behind it, which the assertion would not see.
  struct alignas(std::max_align_t) Aligned : Attributes {};

 protected:
  const Aligned attributes_;
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
  /// Whether the gradient with respect to input i is needed. Rules skip the others.
  virtual bool needs(int i) const = 0;
  /// Records a node and returns its first output; further outputs follow with consecutive ids.
  virtual ValueId record(OpPtr op, std::span<const ValueId> inputs) = 0;
  /// Does nothing if the gradient is not needed, or is kNoValue.
  virtual void set_input_gradient(int i, ValueId gradient) = 0;
  /// The same for a gradient that is part of a wider value: its channels (last axis) from `first` on, as many as input
  /// i has.
  virtual void set_input_gradient_slice(int i, ValueId wide, std::int64_t first) = 0;

  ValueId record(OpPtr op, std::initializer_list<ValueId> inputs) {
    return record(std::move(op), std::span(inputs.begin(), inputs.size()));
  }
};

}  // namespace braid
