#pragma once
// All of Braid's own kernels are launched from here, so that none ends up on the legacy default stream. For .cu files.

#include <cuda_runtime.h>

#include <utility>

#include "core/device/cuda/check.h"
#include "core/device/cuda/stream_handles.h"

namespace braid::cuda {

/// Grid and block of a launch.
struct LaunchShape {
  dim3 grid = 1;
  dim3 block = 1;
};

/// Enqueues kernel<<<shape>>>(arguments…) in the stream. Throws DeviceError if the launch is refused. An empty grid
/// launches nothing.
template <class... Parameters, class... Arguments>
void launch(const StreamHandles& stream, const LaunchShape& shape, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.stream = stream.stream;
  BRAID_CUDA(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
}

}  // namespace braid::cuda
