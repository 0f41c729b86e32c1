#pragma once
// Runs ops without the runtime: one op on arrays, or a step graph node by node. Small and slow, so that tests of ops
// depend on nothing above them.

#include <algorithm>
#include <cstring>
#include <span>

#include "core/device/cpu/thread_pool.h"
#include "core/graph/array.h"
#include "core/graph/step_graph.h"
#include "ops/kernels/kernels.h"
#include "ops/layout/concat.h"

namespace braid::testing {

struct RunOptions {
  int width = 1;
  bool portable = false;
  bool direct = false;
  bool in_place = false;        ///< outputs take over the inputs that they may take over
  std::uint8_t garbage = 0xff;  ///< what outputs and workspace hold before the run
  Communicator* communicator = nullptr;
};

inline ValueDesc desc_of(const Array& array) { return {array.dtype(), array.shape()}; }

inline Array copy_of(const Array& array) {
  Array copy(array.dtype(), array.shape());
  if (array.bytes() > 0) std::memcpy(copy.data(), array.data(), array.bytes());
  return copy;
}

inline Array filled(DType dtype, const Shape& shape, std::uint8_t byte) {
  Array array(dtype, shape);
  if (array.bytes() > 0) std::memset(array.data(), byte, array.bytes());
  return array;
}

inline std::vector<ValueDesc> descs_of(const std::vector<OutputDesc>& outputs) {
  std::vector<ValueDesc> descs;
  for (const OutputDesc& output : outputs) descs.push_back({output.dtype, output.shape});
  return descs;
}

/// Builds the kernel of one op, binds the addresses and launches it once. Throws Error if it writes right behind its
/// workspace.
inline void launch(const Op& op, const std::vector<ValueDesc>& inputs, const std::vector<ValueDesc>& outputs,
                   const std::vector<void*>& input_addresses, const std::vector<void*>& output_addresses,
                   const RunOptions& options) {
  const auto kernel = make_kernel(DeviceType::cpu, {.op = op,
                                                    .inputs = inputs,
                                                    .outputs = outputs,
                                                    .width = options.width,
                                                    .portable = options.portable,
                                                    .direct = options.direct,
                                                    .communicator = options.communicator});
  constexpr std::size_t kGuard = 4096;
  const std::size_t bytes = kernel->workspace_bytes();
  Array workspace = filled(DType::u8, {static_cast<std::int64_t>(bytes + kGuard)}, options.garbage);
  kernel->bind(input_addresses, output_addresses, workspace.data());
  cpu::ThreadPool::instance().reserve(options.width);
  kernel->launch({});
  const std::uint8_t* guard = workspace.as<std::uint8_t>().data() + bytes;
  const bool is_intact = *guard == options.garbage && std::memcmp(guard, guard + 1, kGuard - 1) == 0;
  BRAID_CHECK(is_intact, Error, "[", op.name(), "] wrote beyond its workspace of ", bytes, " bytes");
}

/// The outputs of an op. The given inputs stay as they are, even where the op overwrites.
inline std::vector<Array> run_op(const Op& op, const std::vector<Array>& given, const RunOptions& options = {}) {
  std::vector<Array> inputs, outputs;
  std::vector<ValueDesc> input_descs;
  std::vector<void*> input_addresses, output_addresses;
  for (const Array& array : given) {
    inputs.push_back(copy_of(array));
    input_descs.push_back(desc_of(array));
    input_addresses.push_back(inputs.back().data());
  }
  std::vector<OutputDesc> inferred;
  op.infer(input_descs, inferred);
  for (const OutputDesc& output : inferred) {
    const int shared = output.overwrites >= 0 ? output.overwrites : options.in_place ? output.reuses : -1;
    outputs.push_back(shared >= 0 ? inputs[static_cast<std::size_t>(shared)]
                                  : filled(output.dtype, output.shape, options.garbage));
    output_addresses.push_back(outputs.back().data());
  }
  launch(op, input_descs, descs_of(inferred), input_addresses, output_addresses, options);
  return outputs;
}

/// A step graph with the bytes of its values.
class Interpreter {
 public:
  Interpreter() = default;
  /// Interprets a graph whose inputs and persistent tensors are given.
  Interpreter(StepGraph graph, std::vector<std::pair<ValueId, Array>> given)
      : graph_(std::move(graph)), given_(std::move(given)) {}
  /// A value that the test provides: an input, or the first version of a persistent tensor.
  ValueId add(const Array& array, bool persistent = false) {
    const ValueDesc desc = desc_of(array);
    const ValueId id =
        persistent ? graph_.add_persistent(desc, ValueKind::parameter, slots_++) : graph_.add_input(desc);
    given_.emplace_back(id, array);
    return id;
  }
  StepGraph& graph() { return graph_; }
  const StepGraph& graph() const { return graph_; }

  /// Runs every node with portable kernels. May be called again after more nodes were added.
  void run(Communicator* communicator = nullptr) {
    bytes_.assign(static_cast<std::size_t>(graph_.value_count()), {});
    for (ValueId id = 0; id < graph_.value_count(); ++id) bytes_[index(id)].resize(graph_.value(id).bytes() + 1);
    for (const auto& [id, array] : given_) {
      if (array.bytes() > 0) std::memcpy(address(id), array.data(), array.bytes());
    }
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      const Node& node = graph_.node(id);
      if (node.is_view) continue;
      std::vector<void*> inputs, outputs;
      for (const ValueId input : graph_.inputs(id)) inputs.push_back(address(input));
      for (int i = 0; i < node.output_count; ++i) outputs.push_back(address(graph_.output(id, i)));
      launch(*node.op, graph_.input_descs(id), graph_.output_descs(id), inputs, outputs,
             {.portable = true, .communicator = communicator});
    }
  }

  Array read(ValueId id) {
    const ValueDesc& desc = graph_.value(id).desc;
    Array array(desc.dtype, desc.shape);
    if (array.bytes() > 0) std::memcpy(array.data(), address(id), array.bytes());
    return array;
  }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  /// A view has its root's bytes, and a new version those of the first.
  void* address(ValueId id) {
    id = graph_.value(id).root;
    while (graph_.value(id).previous != kNoValue) id = graph_.value(id).previous;
    return bytes_[index(id)].data();
  }

  StepGraph graph_;
  std::int32_t slots_ = 0;
  std::vector<std::pair<ValueId, Array>> given_;
  std::vector<std::vector<std::byte>> bytes_;
};

/// What a gradient rule sees when only output 0 of one node has a gradient.
class NodeGradient final : public GradientContext {
 public:
  NodeGradient(StepGraph& graph, NodeId node, ValueId dy, const std::vector<int>& needed)
      : graph_(graph), node_(node), dy_(dy), needed_(needed), gradients_(graph.inputs(node).size(), kNoValue) {}

  int input_count() const override { return graph_.node(node_).input_count; }
  ValueId input(int i) const override { return graph_.inputs(node_)[static_cast<std::size_t>(i)]; }
  ValueId output(int i) const override { return graph_.output(node_, i); }
  ValueDesc desc(ValueId value) const override { return graph_.value(value).desc; }
  ValueId output_gradient(int i) const override { return i == 0 ? dy_ : kNoValue; }
  bool needs(int i) const override { return std::find(needed_.begin(), needed_.end(), i) != needed_.end(); }
  using GradientContext::record;
  ValueId record(OpPtr op, std::span<const ValueId> inputs) override {
    return graph_.add_node(std::move(op), inputs, ValueKind::gradient);
  }
  void set_input_gradient(int i, ValueId gradient) override {
    if (needs(i)) gradients_[static_cast<std::size_t>(i)] = gradient;
  }
  void set_input_gradient_slice(int i, ValueId wide, std::int64_t first) override {
    const Shape& shape = graph_.value(input(i)).desc.shape;
    set_input_gradient(i, record(std::make_shared<ops::ChannelSlice>(first, shape[shape.rank() - 1]), {wide}));
  }

  ValueId gradient(int i) const { return gradients_[static_cast<std::size_t>(i)]; }

 private:
  StepGraph& graph_;
  NodeId node_;
  ValueId dy_;
  const std::vector<int>& needed_;
  std::vector<ValueId> gradients_;
};

/// Element i of a floating or integer array, as double.
inline double element(const Array& array, std::int64_t i) {
  const auto at = [&]<class T>(T) { return reinterpret_cast<const T*>(array.data())[i]; };
  switch (array.dtype()) {
    case DType::f32: return at(float{});
    case DType::f64: return at(double{});
    case DType::f16: return static_cast<float>(at(Half{}));
    case DType::bf16: return static_cast<float>(at(BFloat16{}));
    case DType::i32: return at(std::int32_t{});
    case DType::u8: return at(std::uint8_t{});
  }
  return 0;
}

/// All elements, as double.
inline std::vector<double> doubles(const Array& array) {
  std::vector<double> list(static_cast<std::size_t>(array.size()));
  const auto copy = [&]<class T>(T) {
    const auto* from = reinterpret_cast<const T*>(array.data());
    for (double& to : list) {
      if constexpr (std::is_convertible_v<T, double>) {
        to = *from++;
      } else {
        to = static_cast<float>(*from++);
      }
    }
  };
  switch (array.dtype()) {
    case DType::f32: copy(float{}); break;
    case DType::f64: copy(double{}); break;
    case DType::f16: copy(Half{}); break;
    case DType::bf16: copy(BFloat16{}); break;
    case DType::i32: copy(std::int32_t{}); break;
    case DType::u8: copy(std::uint8_t{}); break;
  }
  return list;
}

inline bool same_bytes(const Array& a, const Array& b) {
  return a.bytes() == b.bytes() && (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

}  // namespace braid::testing
