// The device: one H200 (or none, or several), its properties, and the names of errors.

#include <algorithm>
#include <cstring>

#include "tests/cuda/recording/world.h"

namespace {

using namespace braid::recording;
using Kind = Call::Kind;

struct ErrorName {
  cudaError_t status;
  const char* name;
  const char* text;
};

constexpr ErrorName kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorInvalidResourceConfiguration, "cudaErrorInvalidResourceConfiguration", "invalid resource configuration"},
    {cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized", "invalid device context"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const ErrorName* find_error(cudaError_t status) {
  const auto found = std::ranges::find(kErrors, status, &ErrorName::status);
  return found == std::end(kErrors) ? nullptr : &*found;
}

struct Attribute {
  cudaDeviceAttr name;
  int value;
};

constexpr Attribute kAttributes[] = {
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 2147483647},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrMaxSharedMemoryPerBlock, 49152},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, 232448},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 233472},
    {cudaDevAttrReservedSharedMemoryPerBlock, 1024},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
    {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
    {cudaDevAttrMaxBlocksPerMultiprocessor, 32},
    {cudaDevAttrMultiProcessorCount, 132},
    {cudaDevAttrComputeCapabilityMajor, 9},
    {cudaDevAttrComputeCapabilityMinor, 0},
    {cudaDevAttrClockRate, 1980000},
    {cudaDevAttrMemoryClockRate, 3201000},
    {cudaDevAttrGlobalMemoryBusWidth, 6144},
    {cudaDevAttrL2CacheSize, 62914560},
    {cudaDevAttrCooperativeLaunch, 1},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrCanMapHostMemory, 1},
    {cudaDevAttrMemoryPoolsSupported, 1},
};

cudaError_t no_device(const World& world) {
  return world.driver == 0 || world.driver < 13000 ? cudaErrorInsufficientDriver : cudaErrorNoDevice;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t status) {
  const ErrorName* error = find_error(status);
  return error == nullptr ? "unrecognized error code" : error->name;
}

const char* cudaGetErrorString(cudaError_t status) {
  const ErrorName* error = find_error(status);
  return error == nullptr ? "unrecognized error code" : error->text;
}

cudaError_t cudaDriverGetVersion(int* version) {
  return cuda_call(Kind::other, __func__, Needs::nothing, [&](World& world, Call&) {
    *version = world.driver;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  return cuda_call(Kind::other, __func__, Needs::nothing, [&](World& world, Call&) {
    *count = world.driver < 13000 ? 0 : world.devices;
    return *count == 0 ? no_device(world) : cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return cuda_call(Kind::other, __func__, Needs::device, [&](World& world, Call&) {
    if (device < 0 || device >= world.devices) return cudaErrorInvalidDevice;
    world.set_current(&world.primary(device));
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  *device = World::get().current()->device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return cuda_call(Kind::other, __func__, Needs::nothing, [&](World& world, Call&) {
    if (device < 0 || device >= world.devices) return cudaErrorInvalidDevice;
    *properties = {};
    std::strcpy(properties->name, "NVIDIA H200");
    properties->uuid.bytes[0] = static_cast<char>(device + 1);
    properties->totalGlobalMem = world.memory;
    properties->multiProcessorCount = 132;
    properties->major = 9;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxBlocksPerMultiProcessor = 32;
    properties->sharedMemPerBlock = 49152;
    properties->sharedMemPerBlockOptin = 232448;
    properties->sharedMemPerMultiprocessor = 233472;
    properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
    properties->memoryBusWidth = 6144;
    properties->l2CacheSize = 62914560;
    properties->unifiedAddressing = properties->canMapHostMemory = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name, int device) {
  return cuda_call(Kind::other, __func__, Needs::nothing, [&](World& world, Call&) {
    if (device < 0 || device >= world.devices) return cudaErrorInvalidDevice;
    if (name == cudaDevAttrClockRate && world.take_fault("a clock rate") != 0) {  // virtual devices may not say
      *value = 0;
      return cudaSuccess;
    }
    const auto found = std::ranges::find(kAttributes, name, &Attribute::name);
    *value = found == std::end(kAttributes) ? 0 : found->value;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  return cuda_call(Kind::synchronize, __func__, Needs::device, [&](World& world, Call&) {
    if (world.breaks_capture_of_device()) return cudaErrorStreamCaptureUnsupported;
    world.advance_all();
    return cudaSuccess;
  });
}

}  // extern "C"
