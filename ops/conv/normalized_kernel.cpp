#include "ops/conv/normalized_kernel.h"

#include "core/base/align.h"

namespace braid {

namespace {

class NormalizeFirst final : public Kernel {
 public:
  NormalizeFirst(const ValueDesc& y, std::unique_ptr<Kernel> normalize, std::unique_ptr<Kernel> convolve)
      : y_bytes_(align_up(y.bytes(), std::size_t{256})),
        normalize_(std::move(normalize)),
        convolve_(std::move(convolve)) {}

  std::size_t workspace_bytes() const override {
    return y_bytes_ + std::max(normalize_->workspace_bytes(), convolve_->workspace_bytes());
  }
  double flops() const override { return convolve_->flops(); }
  bool is_untried() const override { return convolve_->is_untried(); }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    void* const rest = static_cast<std::byte*>(workspace) + y_bytes_;
    normalize_->bind(inputs.first(ops::kNormalizationInputs), {&workspace, 1}, rest);
    convolve_->bind(plain_inputs(workspace, inputs), outputs, rest);
  }
  void launch(const LaunchContext& context) override {
    normalize_->launch(context);
    convolve_->launch(context);
  }

 private:
  std::size_t y_bytes_;
  std::unique_ptr<Kernel> normalize_, convolve_;
};

}  // namespace

Implementations normalize_first(DeviceType device, const KernelSpec& spec) {
  const ops::PlainConvolution plain(spec.op, spec.inputs);
  const ops::BatchNormApply apply({.activation = plain.activation});
  Implementations list = make_implementations(device, spec.for_part(*plain.op, plain.inputs, spec.outputs));
  for (Implementation& implementation : list) {
    auto normalize = make_kernel(
        device, spec.for_part(apply, spec.inputs.first(ops::kNormalizationInputs), std::span(plain.inputs).first(1)));
    implementation.kernel =
        std::make_unique<NormalizeFirst>(plain.inputs[0], std::move(normalize), std::move(implementation.kernel));
  }
  return list;
}

}  // namespace braid
