#pragma once

#include <memory>
#include <type_traits>

#include "core/device/cuda/check.h"
#include "core/device/cuda/loaded/libraries.h"

namespace braid::cuda {

/// Owns a handle that is a pointer, as all of CUDA's are, and destroys it with `destroy`. Errors of destruction are
/// ignored: they mean that the context is already lost.
template <class T, auto& destroy>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T handle) : handle_(handle) {}
  T get() const { return handle_.get(); }
  operator T() const { return get(); }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  struct Destroy {
    void operator()(T handle) const { static_cast<void>(destroy(handle)); }
  };
  std::unique_ptr<std::remove_pointer_t<T>, Destroy> handle_;
};

using StreamHandle = Handle<cudaStream_t, cudaStreamDestroy>;
using EventHandle = Handle<cudaEvent_t, cudaEventDestroy>;
using GraphHandle = Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExecHandle = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;
using CudnnHandle = Handle<cudnnHandle_t, cudnnDestroy>;
using CublasHandle = Handle<cublasLtHandle_t, cublasLtDestroy>;

/// What a stream needs of the libraries.
struct LibraryHandles {
  CudnnHandle cudnn;
  CublasHandle cublas;
};

/// Makes a stream that does not wait for the legacy default stream.
inline StreamHandle make_stream() {
  cudaStream_t stream = nullptr;
  BRAID_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return StreamHandle(stream);
}

/// Makes an event, by default without timing: an event that only orders is cheaper.
inline EventHandle make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  BRAID_CUDA(cudaEventCreateWithFlags(&event, flags));
  return EventHandle(event);
}

}  // namespace braid::cuda
