#include "ops/kernels/cuda/units.cuh"
#include "ops/layout/copy_geometry.h"

namespace braid::cuda {

namespace {

/// A thread copies a unit at a time. Index is unsigned where that can count all units.
template <class Index, class T>
__global__ void __launch_bounds__(kThreads)
    strided_copy_kernel(Index size, const __grid_constant__ CopyGeometry g, T value, const T* x, T* y) {
  const Index threads = Index{gridDim.x} * kThreads;
  for (Index i = Index{blockIdx.x} * kThreads + threadIdx.x; i < size; i += threads) {
    std::int64_t from = g.offset;
    bool inside = true;
    Index rest = i;
    for (int axis = g.rank - 1; axis >= 0; --axis) {
      const Index extent = static_cast<Index>(g.axes[axis].extent), next = rest / extent;
      const auto place = static_cast<std::int64_t>(rest - next * extent);
      from += place * g.axes[axis].stride;
      inside = inside && place >= g.axes[axis].low && place < g.axes[axis].high;
      rest = next;
    }
    y[i] = inside ? x[from] : value;
  }
}

std::unique_ptr<Kernel> strided_copy(const KernelSpec& spec) {
  const CopyGeometry geometry = copy_geometry(spec.op, spec.inputs[0], spec.outputs[0]);
  return function_kernel(
      [geometry, units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
        const CopyGeometry g = geometry.with_largest_units(inputs[0], outputs[0]);
        const std::int64_t size = g.rows() * g.inner().extent;
        with_unit(static_cast<std::uintptr_t>(g.unit), [&](auto unit) {
          using T = decltype(unit);
          std::memcpy(&unit, g.value, sizeof unit);
          const auto run = [&]<class Index>(Index count) {
            launch(stream, stride_shape(size, 1, units), strided_copy_kernel<Index, T>, count, g, unit,
                   at<const T>(inputs, 0), at<T>(outputs, 0));
          };
          // Half of what 32 bits count, so that the last step of a thread does not wrap.
          size < std::int64_t{1} << 31 ? run(static_cast<unsigned>(size)) : run(static_cast<std::uint64_t>(size));
        });
      });
}

}  // namespace

Implementations make_permute(const KernelSpec& spec) { return strided_copy(spec); }

Implementations make_window(const KernelSpec& spec) { return strided_copy(spec); }

}  // namespace braid::cuda
