#include "core/base/align.h"
#include "core/device/cpu/avx512.h"
#include "ops/conv/cpu/fast_kernels.h"
#include "ops/conv/cpu/normalized_input.h"
#include "ops/conv/cpu_algorithm.h"
#include "ops/conv/normalized_kernel.h"
#include "ops/kernels/function_kernel.h"
#include "ops/matmul/cpu/multiply_add.h"

namespace braid::cpu {

namespace {

/// A plain convolution that normalises as it reads.
class NormalizeOnLoad final : public Kernel {
 public:
  static std::unique_ptr<Kernel> make(const KernelSpec& spec) {
    const ops::PlainConvolution plain(spec.op, spec.inputs);
    auto normalized = std::make_unique<NormalizedInput>();
    normalized->range = range_of(plain.activation);
    KernelSpec inner = spec.for_part(*plain.op, plain.inputs, spec.outputs);
    inner.normalized = normalized.get();
    const bool forward = spec.op.name() == ops::NormalizedConv2d::kName;
    auto kernel = forward ? fast_kernel(inner, {grouped::conv2d, winograd::conv2d, indirect::conv2d})
                          : fast_kernel(inner, {grouped::conv2d_backward_filter, winograd::conv2d_backward_filter,
                                                indirect::conv2d_backward_filter});
    return std::unique_ptr<Kernel>(
        new NormalizeOnLoad(std::move(normalized), std::move(kernel), spec.inputs[0].shape[-1]));
  }

  std::size_t workspace_bytes() const override { return scale_bytes() + kernel_->workspace_bytes(); }
  double flops() const override { return kernel_->flops(); }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    gamma_ = at<const float>(inputs, 1);
    normalized_->shift = at<const float>(inputs, 2);
    normalized_->mean = at<const float>(inputs, 3);
    inverse_deviation_ = at<const float>(inputs, 4);
    normalized_->scale = scale_ = static_cast<float*>(workspace);
    kernel_->bind(plain_inputs(inputs[0], inputs), outputs, static_cast<std::byte*>(workspace) + scale_bytes());
  }
  void launch(const LaunchContext& context) override {
    for (std::int64_t c = 0; c < channels_; ++c) scale_[c] = gamma_[c] * inverse_deviation_[c];
    kernel_->launch(context);
  }

 private:
  NormalizeOnLoad(std::unique_ptr<NormalizedInput> normalized, std::unique_ptr<Kernel> kernel, std::int64_t channels)
      : normalized_(std::move(normalized)), kernel_(std::move(kernel)), channels_(channels) {}

  std::size_t scale_bytes() const {
    return align_up(static_cast<std::size_t>(channels_) * sizeof(float), std::size_t{64});
  }

  std::unique_ptr<NormalizedInput> normalized_;  // the kernel reads it
  std::unique_ptr<Kernel> kernel_;
  std::int64_t channels_;
  const float *gamma_ = nullptr, *inverse_deviation_ = nullptr;
  float* scale_ = nullptr;
};

}  // namespace

Implementations make_conv2d_normalized(const KernelSpec& spec) {
  if (has_avx512() && ops::normalizes_on_load(spec)) return NormalizeOnLoad::make(spec);
  return normalize_first(DeviceType::cpu, spec);
}

Implementations make_conv2d_normalized_backward_filter(const KernelSpec& spec) { return make_conv2d_normalized(spec); }

}  // namespace braid::cpu
