#include "core/cuda/occupancy.h"

#include <cuda_occupancy.h>

#include "core/error.h"
#include "core/text.h"

namespace braid::cuda {

int resident_blocks(const cudaDeviceProp& device, const BlockNeeds& needs) {
  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = device.maxThreadsPerBlock;
  attributes.numRegs = needs.registers;
  attributes.sharedSizeBytes = 0;
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;  // kernels that need more than the default have asked for it
  attributes.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin;
  attributes.numBlockBarriers = 1;
  const cudaOccDeviceProp properties(device);
  const cudaOccDeviceState state;
  cudaOccResult result{};
  const cudaOccError status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &attributes, &state,
                                                                      needs.threads, needs.shared_bytes);
  BRAID_CHECK(status == CUDA_OCC_SUCCESS, DeviceError, "[cuda] no occupancy is known for compute capability ",
              device.major, '.', device.minor, " and blocks of ", plural(needs.threads, "thread"), " with ",
              plural(needs.registers, "register"), " each and ", plural(needs.shared_bytes, "byte"),
              " of shared memory");
  return result.activeBlocksPerMultiprocessor;
}

}  // namespace braid::cuda
