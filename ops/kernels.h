#pragma once
// From node to kernel: every device has one explicit table from op name to a factory.

#include <vector>

#include "core/device.h"
#include "core/op.h"

namespace braid {

/// All that a factory needs to build a kernel. Pointers come later, with Kernel::bind.
struct KernelSpec {
  static constexpr std::size_t kWorkspaceLimit = std::size_t{256} << 20;

  const Op& op;
  std::span<const ValueDesc> inputs;
  std::span<const ValueDesc> outputs;
  int width = 1;              ///< cores the kernel may use (CPU)
  bool portable = false;      ///< plain loops even where a library is faster: the oracle of the tests
  bool tf32 = false;          ///< f32 convolutions and matrix products may round their operands to tf32 (CUDA)
  bool deterministic = true;  ///< only algorithms that give the same bits every time (CUDA)
  std::size_t workspace_limit = kWorkspaceLimit;  ///< bytes that a kernel may ask for (CUDA)
  Device device = {};                             ///< CUDA: which
  const DeviceInfo* info = nullptr;               ///< of that device; required on CUDA

  /// The attributes of the op, which must be a T.
  template <class T>
  const auto& attributes() const {
    return static_cast<const T&>(op).attributes();
  }
};

/// One way to run a node.
struct Implementation {
  std::unique_ptr<Kernel> kernel;
  double relative_time = 1;    ///< duration against the first one's, as far as it is known without measuring
  std::string_view name = {};  ///< tells the ways of one node apart, for reports
};

/// Builds the kernel of one node. May be called from any thread.
/// Throws Error if the device has no kernel for the op with these dtypes.
std::unique_ptr<Kernel> make_kernel(DeviceType device, const KernelSpec& spec);

/// All ways to run one node, the supposedly fastest first; at least one. Most ops have one way, convolutions on CUDA
/// several, which differ in time and workspace. Throws like make_kernel.
std::vector<Implementation> make_implementations(DeviceType device, const KernelSpec& spec);

/// A GPU as cuDNN describes it (JSON), to plan for it elsewhere: DeviceInfo::properties. Empty for a CPU. Throws
/// DeviceError if the device is not there.
std::string device_properties(const Device& device);

/// Names of the ops that have a kernel on the device, sorted.
std::vector<std::string_view> kernel_names(DeviceType device);

}  // namespace braid
