#pragma once
// From node to kernel: every device has one explicit table from op name to a factory.

#include <vector>

#include "core/op.h"

namespace braid {

/// All that a factory needs to build a kernel. Pointers come later, with Kernel::bind.
struct KernelSpec {
  const Op& op;
  std::span<const ValueDesc> inputs;
  std::span<const ValueDesc> outputs;
  int width = 1;          ///< cores the kernel may use (CPU)
  bool portable = false;  ///< plain loops even where a library is faster: the oracle of the tests
};

/// Builds the kernel of one node. May be called from any thread.
/// Throws Error if the device has no kernel for the op with these dtypes.
std::unique_ptr<Kernel> make_kernel(DeviceType device, const KernelSpec& spec);

/// Names of the ops that have a kernel on the device, sorted.
std::vector<std::string_view> kernel_names(DeviceType device);

}  // namespace braid
