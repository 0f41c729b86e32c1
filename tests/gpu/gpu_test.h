#pragma once
// Tests of a GPU. BRAID_TEST_DEVICE=cpu runs those that are not about CUDA on the CPU, in fewer steps: there they check
// the tests themselves. Without the device every test is reported as skipped, and the program exits with 77.

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "core/device/cuda/cuda_backend.h"

namespace braid::testing {

inline const std::string& test_device() {
  static const char* const chosen = std::getenv("BRAID_TEST_DEVICE");
  static const std::string name = chosen == nullptr ? "cuda" : chosen;
  return name;
}

inline bool tests_gpu() { return test_device() != "cpu"; }

inline bool has_gpu() {
  static const bool usable = tests_gpu() && cuda::unavailable_reason().empty();
  return usable;
}

inline bool has_device() { return has_gpu() || !tests_gpu(); }

}  // namespace braid::testing

#define GPU_TEST_CASE(name) TEST_CASE(name* doctest::skip(!braid::testing::has_gpu()))
/// Also runs on the CPU.
#define DEVICE_TEST_CASE(name) TEST_CASE(name* doctest::skip(!braid::testing::has_device()))
