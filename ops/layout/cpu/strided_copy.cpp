#include <cstring>

#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"
#include "ops/layout/copy_geometry.h"

namespace braid::cpu {

namespace {

/// Indices [begin, end) of one row along the innermost axis; index 0 comes from x[from] if the row is inside.
template <class T>
void copy_strided(const CopyGeometry& g, bool inside, std::int64_t begin, std::int64_t end, const T* x,
                  std::int64_t from, T* y) {
  T value;
  std::memcpy(&value, g.value, sizeof value);
  const CopyAxis& axis = g.inner();
  const std::int64_t low = inside ? std::clamp(axis.low, begin, end) : end;
  const std::int64_t high = inside ? std::clamp(axis.high, low, end) : end;
  std::fill(y + begin, y + low, value);
  if (axis.stride == 1) {
    std::copy_n(x + (low < high ? from + low : 0), high - low, y + low);
  } else {
    for (std::int64_t i = low; i < high; ++i) y[i] = x[from + i * axis.stride];
  }
  std::fill(y + high, y + end, value);
}

template <class T>
std::unique_ptr<Kernel> strided_copy(const CopyGeometry& g, int width) {
  return function_kernel([g, width](auto inputs, auto outputs) {
    const std::int64_t extent = g.inner().extent, blocks = divide_up(extent, kElementGrain);
    parallel_for(width, g.rows() * blocks, grain_of(extent), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t piece = first; piece < last; ++piece) {
        const std::int64_t row = piece / blocks, begin = piece % blocks * kElementGrain;
        std::int64_t from = g.offset, rest = row;
        bool inside = true;
        for (int axis = g.rank - 2; axis >= 0; --axis) {
          const auto& [size, stride, low, high] = g.axes[axis];
          const std::int64_t i = rest % size;
          rest /= size;
          from += i * stride;
          inside = inside && i >= low && i < high;
        }
        copy_strided(g, inside, begin, std::min(extent, begin + kElementGrain), at<const T>(inputs, 0), from,
                     at<T>(outputs, 0) + row * extent);
      }
    });
  });
}

Implementations make_strided_copy(const KernelSpec& spec) {
  const CopyGeometry g = copy_geometry(spec.op, spec.inputs[0], spec.outputs[0]);
  switch (g.unit) {
    case 1: return strided_copy<std::uint8_t>(g, spec.width);
    case 2: return strided_copy<std::uint16_t>(g, spec.width);
    case 4: return strided_copy<std::uint32_t>(g, spec.width);
    default: return strided_copy<std::uint64_t>(g, spec.width);
  }
}

}  // namespace

Implementations make_permute(const KernelSpec& spec) { return make_strided_copy(spec); }

Implementations make_window(const KernelSpec& spec) { return make_strided_copy(spec); }

}  // namespace braid::cpu
