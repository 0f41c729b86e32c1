#include <cuda_runtime.h>

#include "swish.h"

namespace custom {

namespace {

constexpr int kThreads = 256;

template <class T, class Formula, class... In>
__global__ void for_each_element(std::int64_t size, Formula formula, T* out, const In*... in) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < size) out[i] = formula(in[i]...);
}

/// Enqueues one thread per element in the node's stream.
template <class T, class Formula, class... In>
void launch(const braid::LaunchContext& context, std::int64_t size, Formula formula, T* out, const In*... in) {
  if (size == 0) return;
  const auto blocks = static_cast<unsigned>((size + kThreads - 1) / kThreads);
  const auto stream = static_cast<cudaStream_t>(context.cuda_stream);
  for_each_element<<<blocks, kThreads, 0, stream>>>(size, formula, out, in...);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) throw braid::DeviceError(braid::message("[swish] ", cudaGetErrorString(status)));
}

std::unique_ptr<braid::Kernel> make_swish(const braid::KernelSpec& spec) {
  return braid::for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const SwishFormula<T> formula{static_cast<T>(spec.attributes<Swish>().beta)};
    return braid::function_kernel(
        [=, size = spec.inputs[0].shape.size()](const braid::LaunchContext& context, auto inputs, auto outputs) {
          launch(context, size, formula, braid::at<T>(outputs, 0), braid::at<const T>(inputs, 0));
        });
  });
}

std::unique_ptr<braid::Kernel> make_swish_backward(const braid::KernelSpec& spec) {
  return braid::for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const SwishGradientFormula<T> formula{static_cast<T>(spec.attributes<SwishBackward>().beta)};
    return braid::function_kernel(
        [=, size = spec.inputs[0].shape.size()](const braid::LaunchContext& context, auto inputs, auto outputs) {
          launch(context, size, formula, braid::at<T>(outputs, 0), braid::at<const T>(inputs, 0),
                 braid::at<const T>(inputs, 1));
        });
  });
}

}  // namespace

void register_swish_cuda() {
  braid::register_kernel(braid::DeviceType::cuda, "custom_swish", make_swish);
  braid::register_kernel(braid::DeviceType::cuda, "custom_swish_backward", make_swish_backward);
}

}  // namespace custom
