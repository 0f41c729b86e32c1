#include "ops/conv/cpu_algorithm.h"

#include <algorithm>

#include "core/base/align.h"
#include "core/device/cpu/avx512.h"
#include "ops/conv/normalized_conv2d.h"

namespace braid::ops {

namespace {

/// x * filter → y, of which one is computed.
struct Convolution {
  Conv2dOptions options;
  Shape x, filter, y;
  enum class Computes : std::uint8_t { x, filter, y } computes;

  explicit Convolution(const KernelSpec& spec)
      : x(spec.inputs[0].shape), filter(spec.inputs[1].shape), y(spec.outputs[0].shape) {
    if (dynamic_cast<const Conv2d*>(&spec.op) != nullptr) {
      options = spec.attributes<Conv2d>();
      computes = Computes::y;
    } else if (dynamic_cast<const Conv2dBackwardData*>(&spec.op) != nullptr) {
      options = spec.attributes<Conv2dBackwardData>().options;
      computes = Computes::x;
      std::swap(x, y);
    } else {
      options = spec.attributes<Conv2dBackwardFilter>().options;
      computes = Computes::filter;
      std::swap(filter, y);
    }
  }

  std::int64_t taps() const { return filter[1] * filter[2]; }
  /// The image that is computed; dy, if that is no image.
  const Shape& target() const { return computes == Computes::x ? x : y; }
  std::int64_t pixels() const { return target()[0] * target()[1] * target()[2]; }
};

using Computes = Convolution::Computes;

/// Depthwise, measured on 4x4 to 112x112 pixels: the loops are slower on small images, where most outputs are near an
/// edge, except for the gradient of a filter larger than 3x3, for which oneDNN has plain loops only. Groups of 2, 4 or
/// 8 channels, measured on 7x7 to 56x56 pixels: oneDNN is slower, least with 8, and most in the gradient of the filter.
bool grouped_is_fastest(const Convolution& c, bool has_library) {
  const std::int64_t group = c.filter[3];
  if (c.x[3] != c.y[3]) return false;
  if (group > 1) return (group == 2 || group == 4 || group == 8) && c.y[3] % 16 == 0;
  return !has_library || c.y[1] * c.y[2] >= 256 || (c.computes == Computes::filter && c.taps() > 9);
}

/// Few tiles do not repay the transform of the filter, and tiles that are mostly beyond the edge save nothing. Measured
/// from 16 to 512 channels.
bool winograd_is_fastest(const Convolution& c) {
  constexpr std::int64_t kLanes = 16, kTile = 4;
  if (c.filter[0] % kLanes != 0 || c.filter[1] != 3 || c.filter[2] != 3 || c.filter[3] % kLanes != 0) return false;
  if (c.options.stride != Extent2d(1) || c.options.dilation != Extent2d(1)) return false;
  const Shape& target = c.target();
  const std::int64_t tiles = target[0] * divide_up(target[1], kTile) * divide_up(target[2], kTile);
  return tiles >= 16 && 2 * c.pixels() >= tiles * kTile * kTile;
}

/// A task for each panel of the filter is fastest for few pixels, and except in backward data for somewhat more if the
/// filter is large. The gradient of a filter also wins with one tap and many pixels. Measured from 16 to 2048 channels.
bool indirect_is_fastest(const Convolution& c) {
  constexpr std::int64_t kFewPixels = 256, kManyPixels = 1024, kLargeFilter = 1 << 18;
  if (c.computes == Computes::filter && c.taps() == 1 && c.pixels() >= kManyPixels) return true;
  const std::int64_t of_large_filter = c.computes == Computes::filter ? 2048 : c.computes == Computes::y ? 512 : 256;
  return c.pixels() <= (c.filter.size() < kLargeFilter ? kFewPixels : of_large_filter);
}

}  // namespace

CpuAlgorithm fastest_cpu_algorithm(const KernelSpec& spec, bool has_library) {
  const Convolution c(spec);
  if (grouped_is_fastest(c, has_library)) return CpuAlgorithm::grouped;
  if (c.options.groups != 1 || std::min(c.filter[0], c.filter[3]) < kLeastChannels) return CpuAlgorithm::library;
  if (!spec.direct && winograd_is_fastest(c)) return CpuAlgorithm::winograd;
  if (indirect_is_fastest(c)) return CpuAlgorithm::indirect;
  const bool pointwise = c.taps() == 1 && c.options.stride == Extent2d(1) && c.options.padding == Extent2d(0);
  return pointwise && c.computes != Computes::filter ? CpuAlgorithm::pointwise : CpuAlgorithm::library;
}

bool should_use(CpuAlgorithm algorithm, const KernelSpec& spec, bool has_library) {
  return cpu::has_avx512() && fastest_cpu_algorithm(spec, has_library) == algorithm;
}

bool normalizes_on_load(const KernelSpec& spec) {
  const PlainConvolution plain(spec.op, spec.inputs);
  const KernelSpec inner = spec.for_part(*plain.op, plain.inputs, spec.outputs);
  if (!inner.allows_fast_kernels()) return false;
  const CpuAlgorithm algorithm = fastest_cpu_algorithm(inner);
  const bool forward = dynamic_cast<const Conv2d*>(plain.op.get()) != nullptr;
  return algorithm != CpuAlgorithm::library && !(forward && algorithm == CpuAlgorithm::indirect);
}

}  // namespace braid::ops
