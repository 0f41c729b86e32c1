#include "core/device/cuda/results.h"

#include <cstring>

namespace braid::cuda {

void Results::send(std::span<const Download> downloads, cudaStream_t stream) {
  sent_.clear();
  std::size_t bytes = 0;
  for (const Download& download : downloads) bytes += download.bytes;
  if (bytes > bytes_) {
    bytes_ = 0;
    host_ = {};
    void* data = nullptr;
    BRAID_CUDA(cudaHostAlloc(&data, bytes, cudaHostAllocDefault));
    host_ = Handle<void*, cudaFreeHost>(data);
    bytes_ = bytes;
  }
  auto* host = static_cast<std::byte*>(host_.get());
  for (const Download& download : downloads) {
    if (download.bytes > 0) {
      BRAID_CUDA(cudaMemcpyAsync(host, download.source, download.bytes, cudaMemcpyDeviceToHost, stream));
    }
    host += download.bytes;
  }
  sent_.assign(downloads.begin(), downloads.end());
}

void Results::deliver() {
  const auto* host = static_cast<const std::byte*>(host_.get());
  for (const Download& download : sent_) {
    if (download.bytes > 0) std::memcpy(download.target, host, download.bytes);
    host += download.bytes;
  }
  sent_.clear();
}

}  // namespace braid::cuda
