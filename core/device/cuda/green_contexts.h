#pragma once
// Green contexts: disjoint groups of SMs, so that the streams of one group never slow down those of another. Drivers
// have had all calls for them since CUDA 12.5.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <vector>

#include "core/device/cuda/handle.h"

namespace braid::cuda {

/// The driver's function, which is looked up.
void destroy_green_context(CUgreenCtx context);

class GreenContexts {
 public:
  /// One context of at least partition[i] SMs each; none if the partition is empty. The hardware hands out SMs in
  /// groups (of eight on Hopper), so a context may get more than requested. Throws DeviceError if the driver lacks
  /// green contexts or the device has not as many SMs.
  GreenContexts(int device, const std::vector<int>& partition);

  int count() const { return static_cast<int>(contexts_.size()); }
  /// A non-blocking stream in context `index`; owned by the caller, to be destroyed before the context.
  cudaStream_t make_stream(int index, int priority) const;

  /// Makes context `index` the thread's current one until its end, if there are green contexts. An event belongs to the
  /// context that is current when it is made, as do handles of cuDNN and cuBLASLt, and must be used with streams of the
  /// same context.
  class Scope {
   public:
    Scope(const GreenContexts& contexts, int index);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const GreenContexts& contexts_;
    CUcontext before_ = nullptr;
  };

 private:
  struct Context {
    Handle<CUgreenCtx, destroy_green_context> green;
    CUcontext context;  ///< the same, as other calls take it
  };

  std::vector<Context> contexts_;
  decltype(&cuCtxGetCurrent) get_current_ = nullptr;
  decltype(&cuCtxSetCurrent) set_current_ = nullptr;
};

}  // namespace braid::cuda
