#pragma once
// What the CUDA kernels share: the handles of their stream.

#include "core/device/cuda/stream_handles.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cuda {

inline const StreamHandles& handles(const LaunchContext& context) {
  return *static_cast<const StreamHandles*>(context.native);
}

/// Gives the callable of a kernel the handles of its stream.
struct HandlesOf {
  const StreamHandles& operator()(const LaunchContext& context) const { return handles(context); }
};

/// A kernel whose work is one callable, as on CPU: `run(stream, inputs, outputs, workspace)` with the stream's handles.
template <class Run>
std::unique_ptr<Kernel> function_kernel(std::size_t workspace_bytes, Run run) {
  return std::unique_ptr<Kernel>(new FunctionKernel<Run, HandlesOf>(workspace_bytes, std::move(run)));
}

/// `run(stream, inputs, outputs)`, without a workspace.
template <class Run>
std::unique_ptr<Kernel> function_kernel(Run run) {
  return std::unique_ptr<Kernel>(new FunctionKernel<Run, HandlesOf>(0, std::move(run)));
}

}  // namespace braid::cuda
