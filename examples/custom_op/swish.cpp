#include "swish.h"

namespace custom {

namespace {

constexpr std::int64_t kGrain = 16384;  // elements that a thread takes at a time

std::unique_ptr<braid::Kernel> make_swish(const braid::KernelSpec& spec) {
  return braid::for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const SwishFormula<T> formula{static_cast<T>(spec.attributes<Swish>().beta)};
    return braid::function_kernel(
        [=, size = spec.inputs[0].shape.size(), width = spec.width](auto inputs, auto outputs) {
          const T* x = braid::at<const T>(inputs, 0);
          T* y = braid::at<T>(outputs, 0);
          braid::parallel_for(width, size, kGrain, [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) y[i] = formula(x[i]);
          });
        });
  });
}

std::unique_ptr<braid::Kernel> make_swish_backward(const braid::KernelSpec& spec) {
  return braid::for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const SwishGradientFormula<T> formula{static_cast<T>(spec.attributes<SwishBackward>().beta)};
    return braid::function_kernel(
        [=, size = spec.inputs[0].shape.size(), width = spec.width](auto inputs, auto outputs) {
          const T *dy = braid::at<const T>(inputs, 0), *x = braid::at<const T>(inputs, 1);
          T* dx = braid::at<T>(outputs, 0);
          braid::parallel_for(width, size, kGrain, [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) dx[i] = formula(dy[i], x[i]);
          });
        });
  });
}

}  // namespace

void Swish::infer(std::span<const braid::ValueDesc> inputs, std::vector<braid::OutputDesc>& outputs) const {
  braid::check_inputs(name(), inputs, 1);
  braid::check_floating(name(), "an input", inputs[0]);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape});
}

void Swish::gradient(braid::GradientContext& context) const {
  context.set_input_gradient(
      0, context.record(std::make_shared<SwishBackward>(attributes()), {context.output_gradient(0), context.input(0)}));
}

void SwishBackward::infer(std::span<const braid::ValueDesc> inputs, std::vector<braid::OutputDesc>& outputs) const {
  braid::check_inputs(name(), inputs, 2);
  braid::check_value(name(), "an input", inputs[1], inputs[0]);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape, .reuses = 0});  // dx may take the place of dy
}

void register_swish() {
  braid::register_kernel(braid::DeviceType::cpu, "custom_swish", make_swish);
  braid::register_kernel(braid::DeviceType::cpu, "custom_swish_backward", make_swish_backward);
#ifdef SWISH_CUDA
  register_swish_cuda();
#endif
}

}  // namespace custom
