// A block of threads compresses or decompresses a block of elements; every thread has some that follow one another.

#include "ops/collective/arithmetic.h"
#include "ops/collective/compression.h"
#include "ops/kernels/cuda/block_reduce.cuh"
#include "ops/kernels/cuda/elements.cuh"

namespace braid::cuda {

namespace {

using Method = Compression::Method;
using ops::MessageFormat;

constexpr int kEach = static_cast<int>(MessageFormat::kBlock) / kThreads;

/// The sum of all values, for every thread.
template <class T>
__device__ T sum_of_block(T value) {
  __shared__ T total;
  const T sum = block_sum<kThreads>(value);
  if (threadIdx.x == 0) total = sum;
  __syncthreads();
  return total;
}

/// The sum of the values of the threads before this one. They are small, and few threads ask.
__device__ inline int sum_before(const unsigned char* values) {
  int sum = 0;
  for (unsigned thread = 0; thread < threadIdx.x; ++thread) sum += values[thread];
  return sum;
}

/// Which of a thread's elements are among the `count` of the block that are largest in magnitude, or, of equal ones,
/// come first.
template <class T>
__device__ void choose_largest(const T (&x)[kEach], int length, int count, bool (&is_chosen)[kEach]) {
  using Bits = arithmetic::Bits<T>;
  __shared__ unsigned char equals[kThreads];
  const int begin = static_cast<int>(threadIdx.x) * kEach;
  const auto reach = [&](Bits least) {
    int own = 0;
    for (int j = 0; j < kEach; ++j) own += begin + j < length && arithmetic::magnitude_bits(x[j]) >= least;
    return own;
  };
  Bits least = 0;  // of the largest elements, found bit by bit
  for (int bit = 8 * static_cast<int>(sizeof(T)) - 2; bit >= 0; --bit) {
    const Bits tried = least | Bits{1} << bit;
    if (sum_of_block(reach(tried)) >= count) least = tried;
  }
  const int larger = reach(least + 1);
  const int all_larger = sum_of_block(larger);
  equals[threadIdx.x] = static_cast<unsigned char>(reach(least) - larger);
  __syncthreads();
  int left = equals[threadIdx.x] > 0 ? count - all_larger - sum_before(equals) : 0;
  for (int j = 0; j < kEach; ++j) {
    const Bits own = arithmetic::magnitude_bits(x[j]);
    is_chosen[j] = begin + j < length && (own > least || (own == least && left-- > 0));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    compress_kernel(const __grid_constant__ MessageFormat format, const std::int32_t* step, const T* gradients,
                    T* residuals, unsigned char* messages) {
  __shared__ T block_x[MessageFormat::kBlock];
  __shared__ unsigned char shared[kThreads];
  const std::int64_t shard = blockIdx.x / format.blocks(), block = blockIdx.x % format.blocks();
  const std::int64_t begin = block * MessageFormat::kBlock, first = format.first(block);
  const auto length = static_cast<int>(format.length(block));
  const int thread = static_cast<int>(threadIdx.x), own = thread * kEach;
  T* const rest = residuals + shard * format.size + begin;
  auto* const numbers = reinterpret_cast<T*>(messages + shard * format.bytes());
  auto* const codes = reinterpret_cast<unsigned char*>(numbers + format.numbers());
  T x[kEach];
  for (int j = 0; j < kEach; ++j) {
    const int i = own + j;
    x[j] = i < length ? gradients[shard * format.size + begin + i] + rest[i] : T(0);
  }
  if (block == format.blocks() - 1 && thread == 0) {
    for (std::int64_t i = format.used_bytes(); i < format.bytes(); ++i) messages[shard * format.bytes() + i] = 0;
  }
  if (format.method == Method::top_k) {
    bool is_chosen[kEach];
    choose_largest(x, length, static_cast<int>(format.chosen(length)), is_chosen);
    int count = 0;
    for (int j = 0; j < kEach; ++j) count += is_chosen[j];
    shared[thread] = static_cast<unsigned char>(count);
    __syncthreads();
    std::int64_t place = first + (count > 0 ? sum_before(shared) : 0);
    for (int j = 0; j < kEach && own + j < length; ++j) {
      rest[own + j] = is_chosen[j] ? T(0) : arithmetic::remaining(x[j], T(0));
      if (!is_chosen[j]) continue;
      numbers[place] = x[j];
      reinterpret_cast<std::uint16_t*>(codes)[place++] = static_cast<std::uint16_t>(own + j);
    }
  } else if (format.method == Method::random_k) {
    for (int j = 0; j < kEach && own + j < length; ++j) {
      block_x[own + j] = x[j];
      rest[own + j] = arithmetic::remaining(x[j], T(0));
    }
    __syncthreads();
    const std::int64_t count = format.chosen(length);
    for (std::int64_t i = thread; i < count; i += kThreads) {
      const std::int64_t place = arithmetic::random_place(*step, block, i, count, length);
      numbers[first + i] = block_x[place];
      reinterpret_cast<std::uint16_t*>(codes)[first + i] = static_cast<std::uint16_t>(place);
      rest[place] = 0;
    }
  } else if (format.method == Method::int8) {
    arithmetic::Bits<T> largest = 0;
    for (int j = 0; j < kEach; ++j) {
      const auto bits = arithmetic::magnitude_bits(x[j]);
      largest = bits > largest ? bits : largest;
    }
    __shared__ arithmetic::Bits<T> of_block;
    largest = ~block_minimum<kThreads>(~largest);
    if (thread == 0) of_block = largest;
    __syncthreads();
    const arithmetic::ByteCode<T> code{arithmetic::from_bits<T>(of_block)};
    if (thread == 0) numbers[first] = code.scale;
    for (int j = 0; j < kEach && own + j < length; ++j) {
      const std::int8_t sent = code.encode(x[j]);
      codes[begin + own + j] = static_cast<unsigned char>(sent);
      rest[own + j] = arithmetic::remaining(x[j], code.decode(sent));
    }
  } else {
    double magnitudes = 0;
    for (int j = 0; j < kEach; ++j) magnitudes += x[j] < 0 ? -static_cast<double>(x[j]) : static_cast<double>(x[j]);
    const T scale = static_cast<T>(sum_of_block(magnitudes) / length);
    if (thread == 0) numbers[first] = scale;
    unsigned char bits = 0;
    for (int j = 0; j < kEach && own + j < length; ++j) {
      bits |= static_cast<unsigned char>((x[j] < 0) << j);
      rest[own + j] = arithmetic::remaining(x[j], x[j] < 0 ? -scale : scale);
    }
    shared[thread] = bits;
    __syncthreads();
    static_assert(kEach == 4, "two threads have the bits of a byte");
    if (thread % 2 == 0) {
      codes[begin / 8 + thread / 2] = static_cast<unsigned char>(bits | shared[thread + 1] << 4);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    decompress_kernel(const __grid_constant__ MessageFormat format, std::int64_t shards, const unsigned char* messages,
                      T* sums) {
  __shared__ T sum[MessageFormat::kBlock];
  const std::int64_t block = blockIdx.x, begin = block * MessageFormat::kBlock, first = format.first(block);
  const auto length = static_cast<int>(format.length(block));
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < length; i += kThreads) sum[i] = 0;
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    __syncthreads();  // other threads may have added to an element
    const auto* const numbers = reinterpret_cast<const T*>(messages + shard * format.bytes());
    const auto* const codes = reinterpret_cast<const unsigned char*>(numbers + format.numbers());
    if (format.chooses()) {
      for (std::int64_t i = first + thread; i < first + format.chosen(length); i += kThreads) {
        sum[reinterpret_cast<const std::uint16_t*>(codes)[i]] += numbers[i];
      }
    } else if (format.method == Method::int8) {
      const arithmetic::ByteCode<T> code{numbers[first]};
      for (int i = thread; i < length; i += kThreads) sum[i] += code.decode(static_cast<std::int8_t>(codes[begin + i]));
    } else {
      const T scale = numbers[first];
      for (int i = thread; i < length; i += kThreads) {
        sum[i] += (codes[(begin + i) / 8] >> i % 8 & 1) != 0 ? -scale : scale;
      }
    }
  }
  __syncthreads();
  for (int i = thread; i < length; i += kThreads) sums[begin + i] = sum[i];
}

}  // namespace

Implementations make_compress(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[1].dtype, [&]<class T>() {
    const auto& [method, ratio] = spec.attributes<ops::Compress>();
    const std::int64_t shards = spec.outputs[0].shape[0];
    const MessageFormat format(method, ratio, spec.inputs[1].shape.size() / std::max<std::int64_t>(1, shards),
                               spec.inputs[1].dtype);
    return function_kernel([=](const StreamHandles& stream, auto inputs, auto outputs) {
      launch(stream, {static_cast<unsigned>(shards * format.blocks()), kThreads}, compress_kernel<T>, format,
             at<const std::int32_t>(inputs, 0), at<const T>(inputs, 1), at<T>(outputs, 1),
             at<unsigned char>(outputs, 0));
    });
  });
}

Implementations make_decompress(const KernelSpec& spec) {
  return for_float_type(spec, spec.outputs[0].dtype, [&]<class T>() {
    const auto& [method, ratio, dtype, shape] = spec.attributes<ops::Decompress>();
    const MessageFormat format(method, ratio, shape.size(), dtype);
    return function_kernel(
        [=, shards = spec.inputs[0].shape[0]](const StreamHandles& stream, auto inputs, auto outputs) {
          launch(stream, {static_cast<unsigned>(format.blocks()), kThreads}, decompress_kernel<T>, format, shards,
                 at<const unsigned char>(inputs, 0), at<T>(outputs, 0));
        });
  });
}

}  // namespace braid::cuda
