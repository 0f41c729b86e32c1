#pragma once
// Tests that need a GPU. Where there is none, every one of them is reported as skipped, and the program exits with 77.

#include <doctest/doctest.h>

#include "core/cuda/cuda_backend.h"

namespace braid::testing {

inline bool has_gpu() {
  static const bool usable = cuda::unavailable_reason().empty();
  return usable;
}

}  // namespace braid::testing

#define GPU_TEST_CASE(name) TEST_CASE(name* doctest::skip(!braid::testing::has_gpu()))
