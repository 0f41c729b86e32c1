#pragma once
// Moves elements between memory and registers. f16 and bf16 are computed in f32. A thread moves up to 16 bytes at a
// time, the widest access there is; where rows or addresses do not allow it, kernels are launched with a width
// of 1.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/device/cuda/launch.h"
#include "ops/common/floating.h"
#include "ops/kernels/cuda/cuda_kernel.h"

namespace braid::cuda {

/// The type that values of T are computed in: float for Half and BFloat16, else T itself.
template <class T>
struct ComputedIn {
  using Type = float;
};
template <>
struct ComputedIn<double> {
  using Type = double;
};
template <class T>
using Compute = typename ComputedIn<T>::Type;

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(Half x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ inline float widen(BFloat16 x) { return __bfloat162float(__ushort_as_bfloat16(x.bits)); }

/// Rounds to nearest even.
template <class T>
__device__ T narrow(Compute<T> x) {
  return x;
}
template <>
__device__ inline Half narrow<Half>(float x) {
  Half y;
  y.bits = __half_as_ushort(__float2half_rn(x));
  return y;
}
template <>
__device__ inline BFloat16 narrow<BFloat16>(float x) {
  BFloat16 y;
  y.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
  return y;
}

/// Neighbouring elements as they lie in memory.
template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth < 16 ? sizeof(T) * kWidth : 16) Packed {
  T at[kWidth];
};

/// Neighbouring elements in registers.
template <class T, int kWidth>
struct Lanes {
  T at[kWidth];
  __device__ T& operator[](int i) { return at[i]; }
  __device__ const T& operator[](int i) const { return at[i]; }
};

/// The elements that 16 bytes hold. f64, in which gradients are checked, moves single elements, with half the kernels.
template <class T>
inline constexpr int kVectorWidth = sizeof(T) == 8 ? 1 : 16 / static_cast<int>(sizeof(T));

/// Where several vectors are read before the first is used, they stay packed, in half the registers.
template <int kWidth, class T>
__device__ Packed<T, kWidth> load_packed(const T* from) {
  return *reinterpret_cast<const Packed<T, kWidth>*>(from);
}

template <class T, int kWidth>
__device__ Lanes<Compute<T>, kWidth> unpack(const Packed<T, kWidth>& packed) {
  Lanes<Compute<T>, kWidth> lanes;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) lanes[i] = widen(packed.at[i]);
  return lanes;
}

template <int kWidth, class T>
__device__ Lanes<Compute<T>, kWidth> load(const T* from) {
  return unpack(load_packed<kWidth>(from));
}

/// Calls f(i) for the lanes of a vector, with i known to the compiler.
template <int kWidth, class F>
__device__ void for_lanes(const F& f) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) f(i);
}

/// The built-in type of a size.
template <std::size_t kBytes>
struct Word {
  using Type =
      std::conditional_t<kBytes == 1, unsigned char, std::conditional_t<kBytes == 2, unsigned short, unsigned>>;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};

/// Uses an intrinsic, because the compiler may split an assignment and store the elements one by one.
template <int kWidth, class T>
__device__ void store_packed(T* to, const Packed<T, kWidth>& packed) {
  using W = typename Word<alignof(Packed<T, kWidth>)>::Type;
  constexpr int kWords = static_cast<int>(sizeof packed / sizeof(W));
  W words[kWords];
  memcpy(words, &packed, sizeof packed);
  for_lanes<kWords>([&](int i) { __stwb(reinterpret_cast<W*>(to) + i, words[i]); });
}

template <int kWidth, class T>
__device__ void store(T* to, const Lanes<Compute<T>, kWidth>& lanes) {
  Packed<T, kWidth> packed;
  for_lanes<kWidth>([&](int i) { packed.at[i] = narrow<T>(lanes[i]); });
  store_packed<kWidth>(to, packed);
}

/// Whether kWidth elements may be moved at once from each of these addresses.
template <int kWidth, class... T>
__host__ __device__ bool is_aligned(const T*... addresses) {
  return ((reinterpret_cast<std::uintptr_t>(addresses) % alignof(Packed<T, kWidth>) == 0) && ...);
}

/// Calls f.operator()<width>() with the width that a kernel is launched with: kWidth if vectors of so many elements may
/// be moved, else 1.
template <int kWidth, class F>
void with_width(bool vectors, const F& f) {
  vectors ? f.template operator()<kWidth>() : f.template operator()<1>();
}

/// Threads of a block, unless a kernel needs another number.
inline constexpr int kThreads = 256;

/// Blocks for a grid whose threads take `per_block` items at a time and stride on: no more than fill the device twice,
/// because further ones would only wait.
inline unsigned blocks_for(std::int64_t items, std::int64_t per_block, int units, int blocks_per_unit = 16) {
  const std::int64_t most = std::int64_t{units} * blocks_per_unit;
  return static_cast<unsigned>(std::min((items + per_block - 1) / per_block, most));
}

/// The launch of a kernel whose threads take vectors of `width` out of `size` elements and stride on.
inline LaunchShape stride_shape(std::int64_t size, int width, int units) {
  return {.grid = blocks_for(size, std::int64_t{kThreads} * width, units), .block = kThreads};
}

/// Calls launch_rows(first row, rows) for groups of rows of fewer than 2³¹ elements each, so that kernels may compute
/// their indices in 32 bits. Throws Error if one row is larger.
template <class LaunchRows>
void for_row_groups(std::string_view op, std::int64_t rows, std::int64_t row_size, const LaunchRows& launch_rows) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  BRAID_CHECK(row_size <= kMost, Error, "[", op, "] expected at most ", kMost, " elements in one image or row, got ",
              row_size);
  const std::int64_t group = kMost / std::max<std::int64_t>(row_size, 1);
  if (row_size == 0) return;
  for (std::int64_t first = 0; first < rows; first += group) launch_rows(first, std::min(group, rows - first));
}

/// Calls make.operator()<T>() with T = float or double. Throws Error for f16 and bf16.
template <class Make>
auto for_computed_float(const KernelSpec& spec, DType dtype, const Make& make) {
  BRAID_CHECK(computed_in(dtype) == dtype, Error, "[", spec.op.name(), "] expected f32 or f64, got ", dtype);
  return dtype == DType::f64 ? make.template operator()<double>() : make.template operator()<float>();
}

}  // namespace braid::cuda
