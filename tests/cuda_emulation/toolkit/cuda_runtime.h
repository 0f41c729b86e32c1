#pragma once
// The part of CUDA C++ that the CUDA kernels of ops use, on the CPU and with an ordinary compiler: blocks run one after
// another, the threads of a block as fibers that change places at barriers. Slow, but every index, every barrier and
// every rounding is the kernel's own.

#include <cuda_runtime_api.h>

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after another

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
};

namespace cuda_emulation {

/// The order in which the threads of a block, and the blocks of a grid, run. Results must not depend on it.
enum class Order { forward, backward, shuffled };
void set_order(Order order);

/// Runs body() once for every thread of the grid. Throws std::logic_error if the launch is illegal or the threads of a
/// block disagree about a barrier.
void run_grid(dim3 grid, dim3 block, const std::function<void()>& body);

/// Blocks of the grids that were launched since the last call.
std::vector<unsigned> take_grids();

/// Waits until all threads of the block, or of the warp, have arrived.
void block_barrier();
void warp_barrier();

/// Waits until all threads of the warp have arrived. Returns what the thread gave whose lane differs by this mask.
unsigned long long exchange(unsigned long long bits, unsigned mask);

}  // namespace cuda_emulation

inline void __syncthreads() { cuda_emulation::block_barrier(); }
inline void __syncwarp() { cuda_emulation::warp_barrier(); }
inline void __threadfence() {}
inline void __threadfence_system() {}

inline unsigned atomicInc(unsigned* address, unsigned most) {
  const unsigned before = *address;
  *address = before >= most ? 0 : before + 1;
  return before;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
void __stwb(T* address, T value) {
  *address = value;
}

template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  bits = cuda_emulation::exchange(bits, static_cast<unsigned>(mask));
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert((sizeof(Parameters) + ... + 0) <= 4096, "a launch takes along 4 KiB");
  cuda_emulation::run_grid(config->gridDim, config->blockDim, [&] { kernel(arguments...); });
  return cudaSuccess;
}
