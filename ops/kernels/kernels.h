#pragma once
// Finds the kernel of a node: factories are registered by device and name of the op, by Braid and by programs that use
// it.

#include <algorithm>
#include <concepts>
#include <functional>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/device/device.h"
#include "core/graph/op.h"

namespace braid {

struct NormalizedInput;

/// Everything a factory needs to build a kernel. Pointers come later, with Kernel::bind.
struct KernelSpec {
  static constexpr std::size_t kWorkspaceLimit = std::size_t{256} << 20;

  const Op& op;
  std::span<const ValueDesc> inputs;
  std::span<const ValueDesc> outputs;
  int width = 1;                                ///< cores the kernel may use (CPU)
  bool constant_filter = false;                 ///< input 1 changes only where keep_filter() is called afterwards (CPU)
  const NormalizedInput* normalized = nullptr;  ///< applied to input 0 as it is read (conv/cpu/normalized_input.h)
  bool portable = false;                        ///< plain loops even where a library is faster: the oracle of the tests
  bool tf32 = false;          ///< f32 convolutions and matrix products may round their operands to tf32 (CUDA)
  bool direct = false;        ///< convolutions by no algorithm that transforms images, such as Winograd's
  bool deterministic = true;  ///< only algorithms that give the same bits every time (CUDA)
  bool autotune = false;      ///< implementations will be timed, so more of them are worth making (CUDA)
  std::size_t workspace_limit = kWorkspaceLimit;  ///< bytes that a kernel may ask for (CUDA)
  int multiprocessors = 0;               ///< SMs for which libraries choose an algorithm; 0: all of the device (CUDA)
  Device device = {};                    ///< CUDA: which
  const DeviceInfo* info = nullptr;      ///< describes that device; required on CUDA
  Communicator* communicator = nullptr;  ///< connects the ranks; null: there is one

  /// Whether a CPU's fast kernels may take it, a library's included: all values are f32, and none is empty.
  bool allows_fast_kernels() const {
    const auto suits = [](const ValueDesc& value) { return value.dtype == DType::f32 && value.shape.size() > 0; };
    return !portable && std::ranges::all_of(inputs, suits) && std::ranges::all_of(outputs, suits);
  }

  /// The same requirements for another op that is part of this one, or for other descriptions of its values. Neither
  /// constant_filter nor normalized is kept: they belong to an input.
  KernelSpec for_part(const Op& part, std::span<const ValueDesc> its_inputs,
                      std::span<const ValueDesc> its_outputs) const {
    return {.op = part,
            .inputs = its_inputs,
            .outputs = its_outputs,
            .width = width,
            .portable = portable,
            .tf32 = tf32,
            .direct = direct,
            .deterministic = deterministic,
            .autotune = autotune,
            .workspace_limit = workspace_limit,
            .multiprocessors = multiprocessors,
            .device = device,
            .info = info,
            .communicator = communicator};
  }

  /// The attributes of the op, which must be a T.
  template <class T>
  const auto& attributes() const {
    return static_cast<const T&>(op).attributes();
  }
};

/// An implementation of a node.
struct Implementation {
  std::unique_ptr<Kernel> kernel;
  double relative_time = 1;    ///< duration relative to the first one's, as estimated
  std::string_view name = {};  ///< distinguishes the implementations of one node in reports
};

/// The implementations of one node, first the one expected to be fastest; at least one. Most ops have one, which is
/// then just a kernel; convolutions on CUDA have several, which differ in time and workspace.
class Implementations : public std::vector<Implementation> {
 public:
  Implementations() = default;
  template <std::derived_from<Kernel> K>
  Implementations(std::unique_ptr<K> kernel) {  // NOLINT: implicit, so that a factory may return a kernel
    push_back({.kernel = std::move(kernel)});
  }
};

/// Builds the implementations of a node. Called from any thread.
using KernelFactory = std::function<Implementations(const KernelSpec& spec)>;

/// Further properties of a registered factory.
struct KernelTraits {
  /// CPU: the factory takes f16 and bf16. Other factories get f32 instead, and the kernel converts.
  bool takes_low_precision = false;
};

/// Registers the factory of an op's kernels for a device. Call it before the first step that needs it; from any thread.
/// Throws Error if the op has kernels for the device already.
void register_kernel(DeviceType device, std::string op, KernelFactory factory, KernelTraits traits = {});

/// Builds the implementations of one node. May be called from any thread.
/// Throws Error if the device has no kernel for the op with these dtypes.
Implementations make_implementations(DeviceType device, const KernelSpec& spec);

/// The first of them.
std::unique_ptr<Kernel> make_kernel(DeviceType device, const KernelSpec& spec);

/// A GPU as cuDNN describes it (JSON), to plan for it elsewhere: DeviceInfo::properties. Empty for a CPU. Throws
/// DeviceError if this machine does not have the device.
std::string device_properties(const Device& device);

/// Names of the ops that have a kernel on the device, sorted.
std::vector<std::string_view> kernel_names(DeviceType device);

}  // namespace braid
