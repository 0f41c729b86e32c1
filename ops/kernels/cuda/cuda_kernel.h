#pragma once
// What the CUDA kernels share: the handles of their stream.

#include "core/device/cuda/stream_handles.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cuda {

inline const StreamHandles& handles(const LaunchContext& context) {
  return *static_cast<const StreamHandles*>(context.native);
}

/// A kernel whose work is one callable, as on CPU, that takes the stream's handles before its addresses.
template <class Run>
class FunctionKernel final : public BoundKernel {
 public:
  FunctionKernel(std::size_t workspace_bytes, Run run) : BoundKernel(workspace_bytes), run_(std::move(run)) {}
  void launch(const LaunchContext& context) override {
    if constexpr (requires { run_(handles(context), inputs(), outputs()); }) {
      run_(handles(context), inputs(), outputs());
    } else {
      run_(handles(context), inputs(), outputs(), workspace_);
    }
  }

 private:
  Run run_;
};

/// `run(stream, inputs, outputs, workspace)` with the stream's handles.
template <class Run>
std::unique_ptr<Kernel> function_kernel(std::size_t workspace_bytes, Run run) {
  return std::unique_ptr<Kernel>(new FunctionKernel<Run>(workspace_bytes, std::move(run)));
}

/// `run(stream, inputs, outputs)`, without a workspace.
template <class Run>
std::unique_ptr<Kernel> function_kernel(Run run) {
  return std::unique_ptr<Kernel>(new FunctionKernel<Run>(0, std::move(run)));
}

}  // namespace braid::cuda
