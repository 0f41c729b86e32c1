// Whether cuDNN and cuBLASLt are found at run time, with stand-ins (stub.cpp) in the place of both.

#include "core/device/cuda/loaded/libraries.h"

#include <doctest/doctest.h>

#include "core/base/error.h"

namespace braid::cuda {

TEST_CASE("functions of libraries that are found are called with their arguments") {
  CHECK(missing_library() == "");
  CHECK(cudnnGetErrorString(CUDNN_STATUS_BAD_PARAM) == std::string("a stub's text"));
  CHECK(cublasLtDestroy(nullptr) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK_THROWS_WITH_AS(cudnnDestroy(nullptr), doctest::Contains("cudnnDestroy is not in the library"), DeviceError);
}

TEST_CASE("a library that cannot be loaded is named, with what to install" * doctest::skip()) {
  const std::string reason = missing_library();
  CHECK(reason.starts_with("libcublasLt.so."));
  CHECK(reason.find("pip install nvidia-cublas") != std::string::npos);
  CHECK_THROWS_WITH_AS(cudnnDestroy(nullptr), doctest::Contains(reason.c_str()), DeviceError);
}

}  // namespace braid::cuda
