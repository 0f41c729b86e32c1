// Memory, copies and fills.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/cuda/recording/world.h"

namespace {

using namespace braid::recording;
using Kind = Call::Kind;

constexpr std::size_t kAlignment = 512;
constexpr int kGarbage = 0xFF;  // NaN in every format, and an impossible label

std::byte* make_block(std::size_t bytes) {
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
  if (data != nullptr) std::memset(data, kGarbage, size);
  return data;
}

/// Frees a block of this memory; `living` counts its blocks.
cudaError_t free_block(void* data, Blocks World::*memory, int Alive::*living, std::string_view function) {
  return cuda_call(Kind::release, function, Needs::device, [&](World& world, Call& call) {
    if (data == nullptr) return cudaSuccess;
    if (world.breaks_capture()) return cudaErrorStreamCaptureUnsupported;
    Blocks& blocks = world.*memory;
    const auto found = blocks.find(static_cast<std::byte*>(data));
    if (found == blocks.end()) {
      world.mistake(call.function + " of what is no block of its memory");
      return cudaErrorInvalidValue;
    }
    world.advance_all();
    call.pointers = {{data, found->second}};
    if (memory == &World::device_memory) world.used -= found->second;
    --(world.alive.*living);
    blocks.erase(found);
    std::free(data);
    return cudaSuccess;
  });
}

/// Whether all the bytes lie in one block.
bool inside(const Blocks& memory, const void* data, std::size_t bytes) {
  const auto block = World::block(memory, data);
  const auto* end = static_cast<const std::byte*>(data) + bytes;
  return block && end <= static_cast<const std::byte*>(block->data) + block->bytes;
}

cudaError_t copy(World& world, Call& call, void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t handle) {
  CUstream_st* stream = world.stream(handle, call);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  call.pointers = {{target, bytes}, {source, bytes}};
  if (bytes == 0) return cudaSuccess;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (inside(world.device_memory, target, bytes) != to_device) return cudaErrorInvalidValue;
  if (inside(world.device_memory, source, bytes) != from_device) return cudaErrorInvalidValue;

  const void* host = to_device ? source : target;
  call.pageable = to_device != from_device && !World::block(world.host_memory, host);
  std::shared_ptr<std::vector<std::byte>> snapshot;  // what a driver makes of pageable memory
  if (call.pageable && to_device && stream->capture == nullptr) {
    const auto* begin = static_cast<const std::byte*>(source);
    snapshot = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
  }
  const cudaError_t status = world.enqueue(*stream, call, [stream, target, source, bytes, snapshot] {
    std::memcpy(target, snapshot ? snapshot->data() : source, bytes);
    stream->time += 1;
  });
  const bool finishes = call.pageable && from_device && stream->capture == nullptr;
  if (finishes) world.finish({stream, stream->done + stream->work.size()}, call.function);
  return status;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return cuda_call(Kind::allocate, __func__, Needs::device, [&](World& world, Call& call) {
    if (world.breaks_capture()) return cudaErrorStreamCaptureUnsupported;
    *data = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (world.used > world.memory || bytes > world.memory - world.used) return cudaErrorMemoryAllocation;
    std::byte* block = make_block(bytes);
    if (block == nullptr) return cudaErrorMemoryAllocation;
    world.device_memory[block] = bytes;
    world.used += bytes;
    ++world.alive.device_blocks;
    call.pointers = {{block, bytes}};
    *data = block;
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* data) { return free_block(data, &World::device_memory, &Alive::device_blocks, __func__); }

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned flags) {
  return cuda_call(Kind::allocate, __func__, Needs::device, [&](World& world, Call& call) {
    if (world.breaks_capture()) return cudaErrorStreamCaptureUnsupported;
    std::byte* block = make_block(bytes);
    if (block == nullptr) return cudaErrorMemoryAllocation;
    world.host_memory[block] = bytes;
    ++world.alive.host_blocks;
    call.pointers = {{block, bytes}};
    call.flags = flags;
    *data = block;
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* data) { return free_block(data, &World::host_memory, &Alive::host_blocks, __func__); }

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  return cuda_call(Kind::other, __func__, Needs::device, [&](World& world, Call&) {
    if (!World::block(world.host_memory, host)) return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return cuda_call(Kind::other, __func__, Needs::device, [&](World& world, Call&) {
    *free = world.memory - std::min(world.memory, world.used);
    *total = world.memory;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cuda_call(Kind::copy, __func__, Needs::device,
                   [&](World& world, Call& call) { return copy(world, call, target, source, bytes, kind, stream); });
}

cudaError_t cudaMemsetAsync(void* target, int value, std::size_t bytes, cudaStream_t handle) {
  return cuda_call(Kind::fill, __func__, Needs::device, [&](World& world, Call& call) {
    CUstream_st* stream = world.stream(handle, call);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    call.pointers = {{target, bytes}};
    if (bytes == 0) return cudaSuccess;
    if (!inside(world.device_memory, target, bytes)) return cudaErrorInvalidValue;
    return world.enqueue(*stream, call, [stream, target, value, bytes] {
      std::memset(target, value, bytes);
      stream->time += 1;
    });
  });
}

}  // extern "C"
