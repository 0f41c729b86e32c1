#include "core/cuda/staging.h"

#include <cstring>

namespace braid::cuda {

namespace {

/// Where the next input begins within a slot.
std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Staging::Staging() {
  cudaStream_t stream = nullptr;
  BRAID_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  copies_ = StreamHandle(stream);
  for (Slot& slot : slots_) slot.uploaded = make_event(), slot.consumed = make_event();
}

void Staging::upload(std::span<const Upload> uploads, cudaStream_t stream) {
  std::size_t bytes = 0;
  for (const Upload& upload : uploads) bytes += aligned(upload.bytes);
  if (bytes == 0) return;

  Slot& slot = slots_[next_];
  next_ = 1 - next_;
  BRAID_CUDA(cudaEventSynchronize(slot.consumed));  // what this slot held last time has arrived in the arena
  reserve(slot, bytes);

  std::size_t offset = 0;
  for (const Upload& upload : uploads) {
    if (upload.bytes > 0) std::memcpy(static_cast<std::byte*>(slot.host.get()) + offset, upload.source, upload.bytes);
    offset += aligned(upload.bytes);
  }
  BRAID_CUDA(cudaMemcpyAsync(slot.device, slot.host, bytes, cudaMemcpyHostToDevice, copies_));
  BRAID_CUDA(cudaEventRecord(slot.uploaded, copies_));
  BRAID_CUDA(cudaStreamWaitEvent(stream, slot.uploaded, 0));
  offset = 0;
  for (const Upload& upload : uploads) {
    const std::byte* source = static_cast<std::byte*>(slot.device.get()) + offset;
    if (upload.bytes > 0)
      BRAID_CUDA(cudaMemcpyAsync(upload.target, source, upload.bytes, cudaMemcpyDeviceToDevice, stream));
    offset += aligned(upload.bytes);
  }
  BRAID_CUDA(cudaEventRecord(slot.consumed, stream));
}

void Staging::reserve(Slot& slot, std::size_t bytes) {
  if (slot.bytes >= bytes) return;
  slot.bytes = 0;
  slot.host = {};
  slot.device = {};
  void* data = nullptr;
  BRAID_CUDA(cudaHostAlloc(&data, bytes, cudaHostAllocDefault));
  slot.host = Handle<void*, cudaFreeHost>(data);
  BRAID_CUDA(cudaMalloc(&data, bytes));
  slot.device = Handle<void*, cudaFree>(data);
  slot.bytes = bytes;
}

}  // namespace braid::cuda
