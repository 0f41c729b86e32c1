#include "tests/cuda/recording/world.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/base/error.h"

namespace braid::recording {

namespace {

constexpr std::size_t kMemory = 150754820096;  // an H200's
thread_local cudaError_t last_error = cudaSuccess;
thread_local CUctx_st* current_context = nullptr;

std::string name_of(const CUctx_st& context) {
  return message(context.id == 0 ? "the primary context" : message("green context ", context.id), " of device ",
                 context.device);
}

}  // namespace

bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorContained:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice: return true;
    default: return false;
  }
}

World& World::get() {
  static World world;
  static const bool ready = (world.reset(), true);
  static_cast<void>(ready);
  return world;
}

void World::reset() {
  for (const auto* blocks : {&device_memory, &host_memory}) {
    for (const auto& [data, bytes] : *blocks) std::free(const_cast<std::byte*>(data));
  }
  device_memory.clear();
  host_memory.clear();
  used = 0;
  lost = cudaSuccess;
  green_contexts.clear();  // a scope of the backend has left none of them as the current one of a thread
  streams.clear();
  events.clear();
  graphs.clear();
  executables.clear();
  for (cudnnContext& handle : cudnn_handles) handle.alive = handle.alive && handle.stream == nullptr;
  captures.clear();
  communicators.clear();
  cliques.clear();
  log.clear();
  mistakes.clear();
  faults.clear();
  alive = {};
  memory = kMemory;
  devices = 1;
  driver = 13000;
  last_error = cudaSuccess;
  current_context = nullptr;
  for (std::size_t i = 0; i < primaries_.size(); ++i) primaries_[i].device = static_cast<int>(i);
  legacy.context = current();
}

CUctx_st& World::primary(int device) { return primaries_.at(static_cast<std::size_t>(device)); }

CUctx_st* World::current() { return current_context == nullptr ? &primary(0) : current_context; }

void World::set_current(CUctx_st* context) { current_context = context; }

bool World::same_context(std::string_view function, const CUctx_st* context, const CUctx_st* other) {
  if (context == other) return true;
  mistake(message(function, " mixes ", name_of(*context), " with ", name_of(*other)));
  return false;
}

void World::mistake(const std::string& text) { mistakes.push_back(text); }

int World::take_fault(std::string_view function) {
  for (auto fault = faults.begin(); fault != faults.end(); ++fault) {
    if (fault->function != function || fault->after-- > 0) continue;
    const int status = fault->status;
    faults.erase(fault);
    return status;
  }
  return 0;
}

CUstream_st* World::stream(cudaStream_t handle, Call& call) {
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    mistake(message(call.function, " uses the default stream"));
    handle = &legacy;
  }
  if (!handle->alive) {
    mistake(message(call.function, " uses stream ", handle->id, " after its end"));
    return nullptr;
  }
  call.stream = handle->id;
  return handle;
}

CUevent_st* World::event(cudaEvent_t handle, Call& call) {
  if (handle == nullptr || !handle->alive) {
    mistake(message(call.function, " uses event ", handle == nullptr ? -1 : handle->id, " after its end"));
    return nullptr;
  }
  call.event = handle->id;
  return handle;
}

cudaError_t World::add(CUstream_st& stream, Call& call, Work work) {
  call.stream = stream.id;
  if (stream.capture != nullptr) {
    Capture& capture = *stream.capture;
    call.graph = capture.id;
    if (capture.invalidated != cudaSuccess) return cudaErrorStreamCaptureInvalidated;
    capture.work.push_back(std::move(work));
    stream.clock[&stream] = ++capture.nodes[&stream];
    return cudaSuccess;
  }
  if (&stream == &legacy) {
    advance_all();
    if (!work()) mistake(message(call.function, " lets the default stream wait for other ranks"));
    return cudaSuccess;
  }
  stream.work.push_back(std::move(work));
  if (call.kind != Call::Kind::record && call.kind != Call::Kind::wait) {
    stream.busy_until = stream.done + stream.work.size();
  }
  return cudaSuccess;
}

bool World::advance(Point point) {
  CUstream_st& stream = *point.stream;
  while (stream.done < point.position && !stream.work.empty()) {
    if (lost == cudaSuccess && !stream.work.front()()) return false;
    stream.work.pop_front();
    ++stream.done;
  }
  return true;
}

void World::finish(Point point, std::string_view function) {
  constexpr int kMost = 60'000;  // milliseconds: a minute, which only a hang takes
  for (int waited = 0; !advance(point); ++waited) {
    if (waited == kMost) return mistake(message(function, " waits for other ranks, however long they take"));
    mutex.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    mutex.lock();
  }
}

void World::advance_all() {
  for (CUstream_st& stream : streams) advance({&stream, stream.done + stream.work.size()});
}

bool World::breaks_capture() {
  bool broken = false;
  for (CUstream_st& stream : streams) {
    Capture* capture = stream.capture;
    if (capture == nullptr || capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (capture->mode == cudaStreamCaptureModeThreadLocal && capture->thread != std::this_thread::get_id()) continue;
    capture->invalidated = cudaErrorStreamCaptureInvalidated;
    broken = true;
  }
  return broken;
}

bool World::breaks_capture_of_device() {
  bool broken = false;
  for (CUstream_st& stream : streams) {
    if (stream.capture == nullptr || stream.context->device != current()->device) continue;
    stream.capture->invalidated = cudaErrorStreamCaptureInvalidated;
    broken = true;
  }
  return broken;
}

std::optional<Bytes> World::block(const Blocks& memory, const void* data) {
  const auto* address = static_cast<const std::byte*>(data);
  auto next = memory.upper_bound(address);
  if (next == memory.begin()) return std::nullopt;
  --next;
  if (address >= next->first + std::max<std::size_t>(next->second, 1)) return std::nullopt;
  return Bytes{next->first, next->second};
}

cudaError_t cuda_call(Call::Kind kind, std::string_view function, Needs needs,
                      const std::function<cudaError_t(World&, Call&)>& body) {
  World& world = World::get();
  const std::lock_guard lock(world.mutex);
  Call call{.kind = kind, .function = std::string(function), .thread = std::this_thread::get_id()};
  auto status = static_cast<cudaError_t>(world.take_fault(function));
  if (status == cudaSuccess) {
    if (needs == Needs::device) status = world.lost;
    if (status == cudaSuccess || kind == Call::Kind::destroy || kind == Call::Kind::release) {
      status = body(world, call);
      if (needs == Needs::device && world.lost != cudaSuccess) status = world.lost;
    }
  } else if (is_sticky(status)) {
    world.lost = status;
  } else if (status >= cudaErrorStreamCaptureUnsupported && status <= cudaErrorCapturedEvent) {
    world.breaks_capture();
    if (function == "cudaStreamEndCapture") static_cast<void>(body(world, call));  // fails, and ends it all the same
  }
  call.status = status;
  world.log.push_back(std::move(call));
  if (status != cudaSuccess && status != cudaErrorNotReady) last_error = status;
  return status;
}

int library_call(Call::Kind kind, std::string_view function, int lost, const std::function<int(World&, Call&)>& body) {
  World& world = World::get();
  const std::lock_guard lock(world.mutex);
  Call call{.kind = kind, .function = std::string(function), .thread = std::this_thread::get_id()};
  int status = world.take_fault(function);
  if (status == 0) {
    if (world.lost == cudaSuccess || kind == Call::Kind::destroy) status = body(world, call);
    if (world.lost != cudaSuccess) status = lost;
  }
  call.status = status;
  world.log.push_back(std::move(call));
  return status;
}

cudaError_t enqueue_launch(World& world, Call& call, CUstream_st& stream) {
  const auto fault = static_cast<cudaError_t>(world.take_fault("kernel"));
  return world.enqueue(stream, call, [&world, &stream, fault] {
    stream.time += 1;
    if (fault != cudaSuccess) world.lost = fault;
  });
}

// The interface of tests

void reset() { LockedWorld()->reset(); }

std::vector<Call> calls() { return LockedWorld()->log; }

void clear() { LockedWorld()->log.clear(); }

void mark(std::string_view text, int stream, int index) {
  LockedWorld()->log.push_back({.kind = Call::Kind::mark,
                                .function = std::string(text),
                                .stream = stream,
                                .index = index,
                                .thread = std::this_thread::get_id()});
}

std::vector<std::string> mistakes() { return LockedWorld()->mistakes; }

Alive alive() { return LockedWorld()->alive; }

void fail_next(std::string_view function, int status, int after) {
  LockedWorld()->faults.push_back({std::string(function), status, after});
}

void fail_kernel(cudaError_t status, int after) { fail_next("kernel", status, after); }

void lose_device(cudaError_t status) { LockedWorld()->lost = status; }

int faults_pending() { return static_cast<int>(LockedWorld()->faults.size()); }

void set_memory(std::size_t bytes) { LockedWorld()->memory = bytes; }

void set_devices(int count) { LockedWorld()->devices = count; }

void set_driver(int version) { LockedWorld()->driver = version; }

std::optional<Bytes> device_block(const void* address) { return World::block(LockedWorld()->device_memory, address); }

std::optional<Bytes> pinned_block(const void* address) { return World::block(LockedWorld()->host_memory, address); }

std::vector<Bytes> device_blocks() {
  const LockedWorld world;
  std::vector<Bytes> blocks;
  for (const auto& [data, bytes] : world->device_memory) blocks.push_back({data, bytes});
  return blocks;
}

}  // namespace braid::recording

using namespace braid::recording;

// An instance of the runtime remembers errors that its own calls have returned to a thread, not errors that other
// instances have seen.
extern "C" cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
