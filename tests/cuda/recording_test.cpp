// The recording runtime itself: what the tests of the CUDA backend rely on.

#include "tests/cuda/recording/recording.h"

#include <doctest/doctest.h>

namespace braid::recording {
namespace {

TEST_CASE("one H200 is there") {
  reset();
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices) == cudaSuccess);
  CHECK(devices == 1);
}

}  // namespace
}  // namespace braid::recording
