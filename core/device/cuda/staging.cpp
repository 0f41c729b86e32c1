#include "core/device/cuda/staging.h"

#include <cstring>
#include <utility>

#include "core/base/align.h"

namespace braid::cuda {

namespace {

/// Where the next input begins within a slot.
std::size_t aligned(std::size_t bytes) { return align_up(bytes, std::size_t{256}); }

}  // namespace

Staging::Staging() {
  copies_ = make_stream();
  for (Pair* pair : {&prefetched_, &others_}) {
    for (Slot& slot : pair->slots) slot.uploaded = make_event(), slot.consumed = make_event();
  }
}

void Staging::upload(std::span<const Upload> uploads, cudaStream_t stream) {
  std::vector<Upload> missing;
  for (const Upload& upload : uploads) {
    if (upload.bytes > 0) missing.push_back(upload);
  }
  if (ahead_ != nullptr) deliver(*std::exchange(ahead_, nullptr), missing, stream);
  if (!missing.empty()) deliver(fill(others_, missing), missing, stream);
}

void Staging::prefetch(std::span<const Upload> uploads) {
  ahead_ = nullptr;
  if (!uploads.empty()) ahead_ = &fill(prefetched_, uploads);
}

Staging::Slot& Staging::fill(Pair& pair, std::span<const Upload> uploads) {
  Slot& slot = pair.slots[pair.next];
  pair.next = 1 - pair.next;
  BRAID_CUDA(cudaEventSynchronize(slot.uploaded));  // what it held last time has left pinned memory
  BRAID_CUDA(cudaEventSynchronize(slot.consumed));  // and has arrived in the arena
  slot.held.assign(uploads.begin(), uploads.end());
  std::size_t bytes = 0;
  for (const Upload& upload : uploads) bytes += aligned(upload.bytes);
  if (bytes == 0) return slot;
  reserve(slot, bytes);

  std::size_t offset = 0;
  for (const Upload& upload : uploads) {
    if (upload.bytes > 0) std::memcpy(static_cast<std::byte*>(slot.host.get()) + offset, upload.source, upload.bytes);
    offset += aligned(upload.bytes);
  }
  BRAID_CUDA(cudaMemcpyAsync(slot.device, slot.host, bytes, cudaMemcpyHostToDevice, copies_));
  BRAID_CUDA(cudaEventRecord(slot.uploaded, copies_));
  return slot;
}

void Staging::deliver(Slot& slot, std::vector<Upload>& uploads, cudaStream_t stream) {
  BRAID_CUDA(cudaStreamWaitEvent(stream, slot.uploaded, 0));
  std::erase_if(uploads, [&](const Upload& upload) {
    std::size_t offset = 0;
    for (const Upload& held : slot.held) {
      if (held.source == upload.source && held.bytes == upload.bytes) {
        const std::byte* source = static_cast<std::byte*>(slot.device.get()) + offset;
        BRAID_CUDA(cudaMemcpyAsync(upload.target, source, upload.bytes, cudaMemcpyDeviceToDevice, stream));
        return true;
      }
      offset += aligned(held.bytes);
    }
    return false;
  });
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
