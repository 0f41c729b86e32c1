#include "ops/kernels/cpu/low_precision.h"

#include <algorithm>
#include <utility>

#include "core/base/align.h"
#include "ops/kernels/own_kernels.h"

namespace braid::cpu {

namespace {

bool is_low(const ValueDesc& value) { return computed_in(value.dtype) != value.dtype; }

ValueDesc widened(const ValueDesc& value) { return {computed_in(value.dtype), value.shape}; }

std::unique_ptr<Kernel> cast(const KernelSpec& spec, const ValueDesc& from, const ValueDesc& to) {
  return std::move(make_cast({spec.op, std::span(&from, 1), std::span(&to, 1), spec.width}).front().kernel);
}

class LowPrecisionKernel final : public Kernel {
 public:
  LowPrecisionKernel(const KernelSpec& spec, const KernelFactory& factory)
      : inputs_(spec.inputs.size(), kInPlace), outputs_(spec.outputs.size(), kInPlace) {
    std::vector<ValueDesc> inputs, outputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const ValueDesc& value = spec.inputs[i];
      inputs.push_back(widened(value));
      if (!is_low(value)) continue;
      inputs_[i] = reserve(inputs.back());
      casts_.push_back({true, i, cast(spec, value, inputs.back())});
    }
    std::vector<OutputDesc> inferred;
    spec.op.infer(spec.inputs, inferred);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const ValueDesc& value = spec.outputs[i];
      outputs.push_back(widened(value));
      if (!is_low(value)) continue;
      // An output that overwrites an input must lie on its copy, and one that may take an input's place can.
      const int shared = std::max(inferred[i].overwrites, inferred[i].reuses);
      const bool on_copy = shared >= 0 && inputs[static_cast<std::size_t>(shared)] == outputs.back();
      if (on_copy) outputs_[i] = inputs_[static_cast<std::size_t>(shared)];
      if (outputs_[i] == kInPlace) outputs_[i] = reserve(outputs.back());
      casts_.push_back({false, i, cast(spec, outputs.back(), value)});
    }
    inner_ = std::move(factory(spec.for_part(spec.op, inputs, outputs)).front().kernel);
  }

  std::size_t workspace_bytes() const override { return copies_bytes_ + inner_->workspace_bytes(); }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    const auto base = static_cast<std::byte*>(workspace);
    const auto moved = [&](std::span<void* const> addresses, const std::vector<std::size_t>& offsets) {
      std::vector<void*> list(addresses.begin(), addresses.end());
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (offsets[i] != kInPlace) list[i] = base + offsets[i];
      }
      return list;
    };
    const std::vector<void*> wide_inputs = moved(inputs, inputs_), wide_outputs = moved(outputs, outputs_);
    for (const Cast& cast : casts_) {
      void* const from = cast.widens ? inputs[cast.index] : wide_outputs[cast.index];
      void* const to = cast.widens ? wide_inputs[cast.index] : outputs[cast.index];
      cast.kernel->bind({&from, 1}, {&to, 1}, nullptr);
    }
    inner_->bind(wide_inputs, wide_outputs, base + copies_bytes_);
  }

  void launch(const LaunchContext& context) override {
    for (const Cast& cast : casts_) {
      if (cast.widens) cast.kernel->launch(context);
    }
    inner_->launch(context);
    for (const Cast& cast : casts_) {
      if (!cast.widens) cast.kernel->launch(context);
    }
  }

 private:
  static constexpr std::size_t kInPlace = static_cast<std::size_t>(-1);
  static constexpr std::size_t kAlignment = 64;
  /// The conversion of one input or output.
  struct Cast {
    bool widens;  // an input; else it rounds an output
    std::size_t index;
    std::unique_ptr<Kernel> kernel;
  };

  /// A place in the workspace.
  std::size_t reserve(const ValueDesc& value) {
    return std::exchange(copies_bytes_, copies_bytes_ + align_up(value.bytes(), kAlignment));
  }

  std::vector<std::size_t> inputs_, outputs_;  // offset of each one's copy, or kInPlace if it needs none
  std::vector<Cast> casts_;
  std::unique_ptr<Kernel> inner_;
  std::size_t copies_bytes_ = 0;
};

}  // namespace

bool is_low_precision(const KernelSpec& spec) {
  return std::ranges::any_of(spec.inputs, is_low) || std::ranges::any_of(spec.outputs, is_low);
}

std::unique_ptr<Kernel> make_low_precision(const KernelSpec& spec, const KernelFactory& factory) {
  return std::make_unique<LowPrecisionKernel>(spec, factory);
}

}  // namespace braid::cpu
