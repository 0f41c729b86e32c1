#pragma once
// What the CUDA kernels share: the handles of their stream.

#include "core/device/cuda/stream_handles.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cuda {

inline const StreamHandles& handles(const LaunchContext& context) {
  return *static_cast<const StreamHandles*>(context.native);
}

/// `run(stream, inputs, outputs, workspace)` with the stream's handles.
template <class Run>
std::unique_ptr<Kernel> function_kernel(std::size_t workspace_bytes, Run run) {
  return braid::function_kernel(
      workspace_bytes, [run = std::move(run)](const LaunchContext& context, auto inputs, auto outputs,
                                              void* workspace) { run(handles(context), inputs, outputs, workspace); });
}

/// `run(stream, inputs, outputs)`, without a workspace.
template <class Run>
std::unique_ptr<Kernel> function_kernel(Run run) {
  return braid::function_kernel([run = std::move(run)](const LaunchContext& context, auto inputs, auto outputs) {
    run(handles(context), inputs, outputs);
  });
}

}  // namespace braid::cuda
