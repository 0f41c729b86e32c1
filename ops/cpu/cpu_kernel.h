#pragma once
// What the CPU kernels share: the factory signature, bound addresses, and dispatch over floating types.

#include <memory>
#include <vector>

#include "ops/kernels.h"

namespace braid::cpu {

using Factory = std::unique_ptr<Kernel> (*)(const KernelSpec& spec);

/// Address i of a bound list, as T.
template <class T>
T* at(std::span<void* const> addresses, std::size_t i) {
  return static_cast<T*>(addresses[i]);
}

/// A kernel whose work is one callable over its addresses: `run(inputs, outputs, workspace)`. Shapes and attributes are
/// captured.
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
  void launch(const LaunchContext&) override {
    run_(std::span<void* const>(inputs_), std::span<void* const>(outputs_), workspace_);
  }

 private:
  std::size_t workspace_bytes_;
  Run run_;
  std::vector<void*> inputs_, outputs_;
  void* workspace_ = nullptr;
};

/// `run(inputs, outputs, workspace)`.
template <class Run>
std::unique_ptr<Kernel> function_kernel(std::size_t workspace_bytes, Run run) {
  return std::make_unique<FunctionKernel<Run>>(workspace_bytes, std::move(run));
}

/// `run(inputs, outputs)`, without a workspace.
template <class Run>
std::unique_ptr<Kernel> function_kernel(Run run) {
  return function_kernel(0, [run = std::move(run)](auto inputs, auto outputs, void*) { run(inputs, outputs); });
}

/// Calls make(T{}) with T = float or double according to dtype. Throws Error for any other type.
template <class Make>
auto for_float_type(const KernelSpec& spec, DType dtype, const Make& make) {
  if (dtype == DType::f32) return make(float{});
  BRAID_CHECK(dtype == DType::f64, Error, "[", spec.op.name(), "] computes in f32 or f64 on CPU, got ", dtype,
              ": cast its inputs");
  return make(double{});
}

/// Factories, one file each beside this one.
std::unique_ptr<Kernel> make_conv2d(const KernelSpec& spec);
std::unique_ptr<Kernel> make_conv2d_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> make_conv2d_backward_filter(const KernelSpec& spec);
std::unique_ptr<Kernel> make_linear(const KernelSpec& spec);
std::unique_ptr<Kernel> make_linear_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> make_linear_backward_filter(const KernelSpec& spec);
std::unique_ptr<Kernel> make_channel_sum(const KernelSpec& spec);
std::unique_ptr<Kernel> make_batch_norm(const KernelSpec& spec);
std::unique_ptr<Kernel> make_batch_norm_apply(const KernelSpec& spec);
std::unique_ptr<Kernel> make_batch_norm_inference(const KernelSpec& spec);
std::unique_ptr<Kernel> make_batch_norm_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_max_pool2d(const KernelSpec& spec);
std::unique_ptr<Kernel> make_max_pool2d_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_avg_pool2d(const KernelSpec& spec);
std::unique_ptr<Kernel> make_avg_pool2d_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_adaptive_avg_pool2d(const KernelSpec& spec);
std::unique_ptr<Kernel> make_adaptive_avg_pool2d_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_global_avg_pool(const KernelSpec& spec);
std::unique_ptr<Kernel> make_global_avg_pool_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_relu(const KernelSpec& spec);
std::unique_ptr<Kernel> make_relu_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_relu6(const KernelSpec& spec);
std::unique_ptr<Kernel> make_relu6_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_scale(const KernelSpec& spec);
std::unique_ptr<Kernel> make_scale_by(const KernelSpec& spec);
std::unique_ptr<Kernel> make_sum(const KernelSpec& spec);
std::unique_ptr<Kernel> make_cast(const KernelSpec& spec);
std::unique_ptr<Kernel> make_fill(const KernelSpec& spec);
std::unique_ptr<Kernel> make_concat(const KernelSpec& spec);
std::unique_ptr<Kernel> make_channel_slice(const KernelSpec& spec);
std::unique_ptr<Kernel> make_slice_sum(const KernelSpec& spec);
std::unique_ptr<Kernel> make_dropout(const KernelSpec& spec);
std::unique_ptr<Kernel> make_cross_entropy(const KernelSpec& spec);
std::unique_ptr<Kernel> make_cross_entropy_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_accuracy(const KernelSpec& spec);
std::unique_ptr<Kernel> make_loss_scale_update(const KernelSpec& spec);
std::unique_ptr<Kernel> make_sgd_update(const KernelSpec& spec);
std::unique_ptr<Kernel> make_adam_update(const KernelSpec& spec);
std::unique_ptr<Kernel> make_weighted_sum(const KernelSpec& spec);
std::unique_ptr<Kernel> make_weighted_sum_backward(const KernelSpec& spec);

}  // namespace braid::cpu
