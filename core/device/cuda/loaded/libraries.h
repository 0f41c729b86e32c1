#pragma once
// cuDNN and cuBLASLt are loaded when a CUDA device is used, so that a program starts on a machine that has neither. The
// functions that Braid calls are defined in libraries.cpp: they load the libraries and pass the call on.

#include <string>

namespace braid::cuda {

/// Loads both libraries. Empty if that succeeds, else a sentence that says which one is missing and what to do. Calling
/// a function of a missing library throws DeviceError with that sentence.
std::string missing_library();

}  // namespace braid::cuda
