#include "core/device/cuda/loaded/libraries.h"

#include <cuda_runtime_api.h>

#include <string_view>

namespace braid::cuda {

namespace {

struct Libraries {
  DynamicLibrary cublaslt{message("libcublasLt.so.", CUDART_VERSION / 1000), BRAID_CUBLASLT_FOLDER};
  // Needs cuBLASLt, which is found by its name if it is there already.
  DynamicLibrary cudnn{message("libcudnn.so.", CUDNN_MAJOR), BRAID_CUDNN_FOLDER};
};

const Libraries& libraries() {
  static const Libraries loaded;
  return loaded;
}

}  // namespace

std::string missing_library() {
  const auto& [cublaslt, cudnn] = libraries();
  const bool has_cublaslt = cublaslt.problem().empty();
  if (has_cublaslt && cudnn.problem().empty()) return "";
  const std::string package = has_cublaslt ? message("nvidia-cudnn-cu", CUDART_VERSION / 1000) : "nvidia-cublas";
  return message((has_cublaslt ? cudnn : cublaslt).problem(), ": install it, for instance with 'pip install ", package,
                 "', and put its folder into LD_LIBRARY_PATH");
}

Symbol find_function(const char* name) {
  const std::string problem = missing_library();
  BRAID_CHECK(problem.empty(), DeviceError, "[cuda] ", problem);
  const auto& [cublaslt, cudnn] = libraries();
  const Symbol found = (std::string_view(name).starts_with("cudnn") ? cudnn : cublaslt).find(name);
  BRAID_CHECK(found.address != nullptr, DeviceError, "[cuda] ", name,
              " is not in the library that is installed: update it");
  return found;
}

}  // namespace braid::cuda
