#pragma once
// The persistent tensors of a context: parameters and states.

#include <deque>
#include <memory>
#include <string>

#include "core/device/buffer.h"
#include "core/graph/step_graph.h"

namespace braid {

class Context;
struct RandomState;
struct TensorStore;

/// A tensor that outlives the step: a weight, a running statistic, a momentum buffer.
class Parameter {
 public:
  const std::string& name() const { return name_; }  ///< as "layer1.0.conv1.weight"
  const ValueDesc& desc() const { return desc_; }
  const Shape& shape() const { return desc_.shape; }
  ValueKind kind() const { return kind_; }     ///< parameter (trained) or state
  std::int32_t slot() const { return slot_; }  ///< its index in the context
  void* data() const { return buffer_.data(); }
  std::size_t bytes() const { return buffer_.bytes(); }  ///< 0 once released and freed
  /// Differs after each write and each step that changes the elements; positive, and never that of another parameter.
  std::uint64_t version() const { return version_; }
  /// What each rank has of it. data() and bytes() are those of this rank's rows (split) or its piece.
  const Layouts& layouts() const { return layouts_; }
  /// The stage of a pipeline that first used it, whose rank alone has its newest elements; kNoStage: none has yet.
  std::int16_t stage() const { return stage_; }
  static constexpr std::int16_t kNoStage = -1;
  /// Whether its model or its session has been destroyed.
  bool released() const { return released_; }
  bool trainable = true;     ///< frozen parameters get no gradient
  bool weight_decay = true;  ///< whether optimizers decay it; by convention false for biases and batch norm

  /// Its copy in f16 or bf16, which layers compute with (Context::rounded); or null. The copy always follows it.
  Parameter* rounded() const { return rounded_; }
  /// The parameter that it is a copy of; null for all others.
  Parameter* original() const { return original_; }

  /// The context that made it. Throws Error if that has been destroyed.
  Context& context() const;
  /// The random state that was in force then: that of its model.
  RandomState* random() const { return random_; }
  /// Keeps the parameter object valid, as a released one, after the context is destroyed.
  std::shared_ptr<const TensorStore> store() const;

 private:
  friend class Context;
  std::string name_;
  ValueDesc desc_;
  ValueKind kind_ = ValueKind::parameter;
  std::int32_t slot_ = -1;
  static std::uint64_t next_version();
  std::uint64_t version_ = next_version();
  bool released_ = false;
  Layouts layouts_ = {};
  std::int16_t stage_ = kNoStage;
  bool may_be_rounded_ = true;
  Parameter *rounded_ = nullptr, *original_ = nullptr;
  TensorStore* store_ = nullptr;
  RandomState* random_ = nullptr;
  Buffer buffer_;
};

/// All persistent tensors of a context. Models and optimizers share it, so that one that outlives its context gets an
/// error instead of using freed memory.
struct TensorStore : std::enable_shared_from_this<TensorStore> {
  Context* context = nullptr;  ///< null once it is destroyed
  std::deque<Parameter> tensors;

  /// Throws Error if the context has been destroyed.
  Context& living_context() const;
};

}  // namespace braid
