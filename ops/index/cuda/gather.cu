// An index out of range reads 0, adds nothing, and reports a DataFault to the host.

#include "ops/index/gather.h"
#include "ops/kernels/cuda/fault.cuh"
#include "ops/kernels/cuda/units.cuh"

namespace braid::cuda {

namespace {

/// Whether an index names an element; reports one that names neither an element nor nothing.
__device__ bool names_element(const GatherGeometry& g, std::int32_t index, DataFault* fault) {
  if (!g.is_valid(index)) report_fault(fault, DataFault::kIndex, index, g.extent);
  return index != g.nothing && index >= 0 && index < g.extent;
}

/// A thread copies an element at a time.
template <class T>
__global__ void __launch_bounds__(kThreads) gather_kernel(const __grid_constant__ GatherGeometry g, const T* x,
                                                          const std::int32_t* index, T* y, DataFault* fault) {
  const std::int64_t size = g.outer * g.chosen * g.inner, threads = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t e = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; e < size; e += threads) {
    const std::int64_t i = e % g.inner, row = e / g.inner, b = row % g.chosen, o = row / g.chosen;
    const std::int32_t a = index[g.place(o, b, i)];
    y[e] = names_element(g, a, fault) ? x[(o * g.extent + a) * g.inner + i] : T{};
  }
}

/// A thread adds up the columns of dx one by one, each in the order of the rows of dy, without atomic operations: the
/// same bits every time.
template <class T>
__global__ void __launch_bounds__(kThreads) scatter_sum_kernel(const __grid_constant__ GatherGeometry g, const T* dy,
                                                               const std::int32_t* index, T* dx, DataFault* fault) {
  const std::int64_t columns = g.outer * g.inner, threads = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t c = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; c < columns; c += threads) {
    const std::int64_t i = c % g.inner, o = c / g.inner;
    T* const to = dx + o * g.extent * g.inner + i;
    for (std::int64_t a = 0; a < g.extent; ++a) to[a * g.inner] = T(0);
    for (std::int64_t b = 0; b < g.chosen; ++b) {
      const std::int32_t a = index[g.place(o, b, i)];
      if (names_element(g, a, fault)) to[a * g.inner] += dy[(o * g.chosen + b) * g.inner + i];
    }
  }
}

}  // namespace

Implementations make_gather(const KernelSpec& spec) {
  const auto& attributes = spec.attributes<ops::Gather>();
  const GatherGeometry g(attributes, spec.inputs[0].shape[attributes.axis], spec.outputs[0].shape,
                         spec.inputs[1].shape);
  const std::size_t bytes = size_of(spec.inputs[0].dtype);
  return function_kernel([=, size = spec.outputs[0].shape.size(), units = spec.info->capacity](
                             const StreamHandles& stream, auto inputs, auto outputs) {
    with_unit(bytes, [&](auto unit) {
      using T = decltype(unit);
      launch(stream, stride_shape(size, 1, units), gather_kernel<T>, g, at<const T>(inputs, 0),
             at<const std::int32_t>(inputs, 1), at<T>(outputs, 0), stream.fault);
    });
  });
}

Implementations make_scatter_sum(const KernelSpec& spec) {
  const auto& [attributes, extent] = spec.attributes<ops::ScatterSum>();
  const GatherGeometry g(attributes, extent, spec.inputs[0].shape, spec.inputs[1].shape);
  return for_computed_float(spec, spec.inputs[0].dtype, [&]<class T>() {
    return function_kernel([=, units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
      launch(stream, stride_shape(g.outer * g.inner, 1, units), scatter_sum_kernel<T>, g, at<const T>(inputs, 0),
             at<const std::int32_t>(inputs, 1), at<T>(outputs, 0), stream.fault);
    });
  });
}

}  // namespace braid::cuda
