#pragma once
// Makes kernels from callables: most kernels are one function over addresses.

#include <functional>
#include <vector>

#include "ops/kernels/kernels.h"

namespace braid {

/// Address i of a bound list, as T.
template <class T>
T* at(std::span<void* const> addresses, std::size_t i) {
  return static_cast<T*>(addresses[i]);
}

/// What all kernels of callables have in common: addresses and workspace.
class BoundKernel : public Kernel {
 public:
  std::size_t workspace_bytes() const final { return workspace_bytes_; }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) final {
    inputs_.assign(inputs.begin(), inputs.end());
    outputs_.assign(outputs.begin(), outputs.end());
    workspace_ = workspace;
  }

 protected:
  explicit BoundKernel(std::size_t workspace_bytes) : workspace_bytes_(workspace_bytes) {}
  std::span<void* const> inputs() const { return inputs_; }
  std::span<void* const> outputs() const { return outputs_; }

  void* workspace_ = nullptr;

 private:
  std::size_t workspace_bytes_;
  std::vector<void*> inputs_, outputs_;
};

/// A kernel whose work is one callable over its addresses. Shapes and attributes are captured. The callable takes
/// (inputs, outputs), each a std::span<void* const>; optionally before them what ContextOf makes of the LaunchContext,
/// which CUDA kernels need; and its workspace after them, if it has one.
template <class Run, class ContextOf = std::identity>
class FunctionKernel final : public BoundKernel {
 public:
  FunctionKernel(std::size_t workspace_bytes, Run run) : BoundKernel(workspace_bytes), run_(std::move(run)) {}
  void launch(const LaunchContext& context) override {
    if constexpr (requires { run_(inputs(), outputs()); }) {
      run_(inputs(), outputs());
    } else if constexpr (requires { run_(inputs(), outputs(), workspace_); }) {
      run_(inputs(), outputs(), workspace_);
    } else if constexpr (requires { run_(ContextOf()(context), inputs(), outputs()); }) {
      run_(ContextOf()(context), inputs(), outputs());
    } else {
      run_(ContextOf()(context), inputs(), outputs(), workspace_);
    }
  }

 private:
  Run run_;
};

// Not std::make_unique, which compiles slowly for each of hundreds of callables.
template <class Run>
std::unique_ptr<Kernel> function_kernel(std::size_t workspace_bytes, Run run) {
  return std::unique_ptr<Kernel>(new FunctionKernel<Run>(workspace_bytes, std::move(run)));
}

template <class Run>
std::unique_ptr<Kernel> function_kernel(Run run) {
  return std::unique_ptr<Kernel>(new FunctionKernel<Run>(0, std::move(run)));
}

/// Calls `make.operator()<T>()` with T = float or double according to dtype, the types that CPU kernels compute in.
/// Throws Error for any other type.
template <class Make>
auto for_float_type(const KernelSpec& spec, DType dtype, const Make& make) {
  if (dtype == DType::f32) return make.template operator()<float>();
  BRAID_CHECK(dtype == DType::f64, Error, "[", spec.op.name(), "] computes in f32 or f64 on CPU, got ", dtype,
              ": cast its inputs");
  return make.template operator()<double>();
}

/// A CPU kernel that calls `run.operator()<T>(inputs, outputs)` with the type of input 0 as T.
template <class Run>
std::unique_ptr<Kernel> float_kernel(const KernelSpec& spec, Run run) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    return function_kernel([run](auto inputs, auto outputs) { run.template operator()<T>(inputs, outputs); });
  });
}

/// The same with its workspace as a third argument.
template <class Run>
std::unique_ptr<Kernel> float_kernel(const KernelSpec& spec, std::size_t workspace_bytes, Run run) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    return function_kernel(workspace_bytes, [run](auto inputs, auto outputs, void* workspace) {
      run.template operator()<T>(inputs, outputs, workspace);
    });
  });
}

}  // namespace braid
