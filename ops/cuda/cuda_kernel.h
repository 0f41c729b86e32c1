#pragma once
// What the CUDA kernels share: factory signatures, bound addresses, and dispatch over element types.

#include <memory>
#include <vector>

#include "core/cuda/stream_handles.h"
#include "ops/kernels.h"

namespace braid::cuda {

/// Most ops have one way to run.
using Factory = std::unique_ptr<Kernel> (*)(const KernelSpec& spec);

/// Address i of a bound list, as T.
template <class T>
T* at(std::span<void* const> addresses, std::size_t i) {
  return static_cast<T*>(addresses[i]);
}

inline const StreamHandles& handles(const LaunchContext& context) {
  return *static_cast<const StreamHandles*>(context.native);
}

/// A kernel whose work is one callable over its addresses: `run(stream, inputs, outputs, workspace)` with the stream's
/// handles. Shapes and attributes are captured.
template <class Run>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(std::size_t workspace_bytes, Run run) : workspace_bytes_(workspace_bytes), run_(std::move(run)) {}
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    inputs_.assign(inputs.begin(), inputs.end());
    outputs_.assign(outputs.begin(), outputs.end());
    workspace_ = workspace;
  }
  void launch(const LaunchContext& context) override {
    run_(handles(context), std::span<void* const>(inputs_), std::span<void* const>(outputs_), workspace_);
  }

 private:
  std::size_t workspace_bytes_;
  Run run_;
  std::vector<void*> inputs_, outputs_;
  void* workspace_ = nullptr;
};

/// `run(stream, inputs, outputs, workspace)`.
template <class Run>
std::unique_ptr<Kernel> function_kernel(std::size_t workspace_bytes, Run run) {
  return std::make_unique<FunctionKernel<Run>>(workspace_bytes, std::move(run));
}

/// `run(stream, inputs, outputs)`, without a workspace.
template <class Run>
std::unique_ptr<Kernel> function_kernel(Run run) {
  return function_kernel(0, [run = std::move(run)](const StreamHandles& stream, auto inputs, auto outputs, void*) {
    run(stream, inputs, outputs);
  });
}

}  // namespace braid::cuda
