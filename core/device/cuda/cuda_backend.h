#pragma once
// The CUDA backend, or the reason why there is none. Without CUDA, core/device/cuda/unavailable.cpp takes its place.

#include <memory>
#include <string>

#include "core/device/backend.h"

namespace braid::cuda {

/// Empty if a CUDA device can be used, else a sentence that says why not.
std::string unavailable_reason();
/// GPUs that can be used; 0 if there is a reason why none can.
int device_count();
/// Throws DeviceError with that reason, or if there is no such device.
std::unique_ptr<Backend> make_backend(int index);

}  // namespace braid::cuda
