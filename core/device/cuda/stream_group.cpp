#include "core/device/cuda/stream_group.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <new>

#include "core/base/error.h"
#include "core/base/median.h"
#include "core/device/cuda/wait.h"
#include "core/text/text.h"

namespace braid::cuda {

namespace {

struct GraphReplay final : Replay {
  explicit GraphReplay(cudaGraphExec_t made) : graph(made) {}
  const GraphExecHandle graph;
};

/// The handles of streams that have ended, for later streams on the device: a library waits for the device before it
/// destroys a handle, which breaks captures of other threads. Itself never destroyed: the driver may be unloaded by
/// then.
class HandlePool {
 public:
  static HandlePool& instance() {
    static auto& pool = *new HandlePool;
    return pool;
  }

  /// Empty if there are none.
  LibraryHandles take(int device) {
    const std::lock_guard lock(mutex_);
    std::vector<LibraryHandles>& list = ended_[device];
    if (list.empty()) return {};
    LibraryHandles last = std::move(list.back());
    list.pop_back();
    return last;
  }

  void give_back(int device, LibraryHandles handles) {
    if (cudnnSetStream(handles.cudnn, nullptr) != CUDNN_STATUS_SUCCESS) return;  // the device is lost
    const std::lock_guard lock(mutex_);
    ended_[device].push_back(std::move(handles));
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<LibraryHandles>> ended_;
};

LibraryHandles make_library_handles() {
  cudnnHandle_t cudnn = nullptr;
  BRAID_CUDNN(cudnnCreate(&cudnn));
  LibraryHandles made{CudnnHandle(cudnn), {}};
  cublasLtHandle_t cublas = nullptr;
  BRAID_CUBLAS(cublasLtCreate(&cublas));
  made.cublas = CublasHandle(cublas);
  return made;
}

/// Shows a node in profilers while its kernels are being enqueued.
class Range {
 public:
  Range(const Program& program, std::int32_t index) : shown_(static_cast<std::size_t>(index) < program.names.size()) {
    if (shown_) nvtxRangePushA(program.names[static_cast<std::size_t>(index)].c_str());
  }
  ~Range() {
    if (shown_) nvtxRangePop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  bool shown_;
};

}  // namespace

CudaStreamGroup::CudaStreamGroup(int device, const StreamOptions& options)
    : device_(device), green_contexts_(device, options.partition) {
  const int count = options.partition.empty() ? options.count : static_cast<int>(options.partition.size());
  BRAID_CHECK(count >= 1, DeviceError, "[cuda] expected at least one stream, got ", count);
  use_device();
  void* fault = nullptr;
  BRAID_CUDA(cudaHostAlloc(&fault, sizeof(DataFault), cudaHostAllocMapped));
  fault_ = Handle<void*, cudaFreeHost>(fault);
  new (fault) DataFault;
  for (int index = 0; index < count; ++index) streams_.push_back(make_stream(index, count));
  const GreenContexts::Scope scope(green_contexts_, 0);
  forked_ = make_event();
  for (ProgramEnd& end : ends_) end.finished = make_event();
  staging_.emplace();
}

CudaStreamGroup::~CudaStreamGroup() {
  static_cast<void>(cudaSetDevice(device_));
  for (const OwnStream& own : streams_) static_cast<void>(cudaStreamSynchronize(own.stream));
  if (green_contexts_.count() == 0) {  // else they end with their context
    for (OwnStream& own : streams_) HandlePool::instance().give_back(device_, std::move(own.libraries));
  }
  cudaGetLastError();
}

void CudaStreamGroup::use_device() const { BRAID_CUDA(cudaSetDevice(device_)); }

CudaStreamGroup::OwnStream CudaStreamGroup::make_stream(int index, int count) {
  int lowest = 0, highest = 0;  // a higher priority is a smaller number
  BRAID_CUDA(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  const int priority = count == 1 ? highest : highest + (lowest - highest) * index / (count - 1);

  const GreenContexts::Scope scope(green_contexts_, index);
  OwnStream own;
  cudaStream_t stream = nullptr;
  if (green_contexts_.count() > 0) {
    stream = green_contexts_.make_stream(index, priority);
  } else {
    BRAID_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  }
  own.stream = StreamHandle(stream);
  if (green_contexts_.count() == 0) own.libraries = HandlePool::instance().take(device_);
  if (!own.libraries.cudnn) own.libraries = make_library_handles();
  BRAID_CUDNN(cudnnSetStream(own.libraries.cudnn, stream));
  own.joined = make_event();

  void *fault = nullptr, *arrivals = nullptr;
  BRAID_CUDA(cudaHostGetDevicePointer(&fault, fault_, 0));
  BRAID_CUDA(cudaMalloc(&arrivals, kArrivalCounters * sizeof(unsigned)));
  own.arrivals = Handle<void*, cudaFree>(arrivals);
  BRAID_CUDA(cudaMemsetAsync(arrivals, 0, kArrivalCounters * sizeof(unsigned), stream));
  own.handles = {stream, own.libraries.cudnn, own.libraries.cublas, static_cast<DataFault*>(fault),
                 static_cast<unsigned*>(arrivals)};
  return own;
}

int CudaStreamGroup::admit() {
  use_device();
  wait(device_, ends_[next_end_].finished);  // the program before the last one launched
  ends_[next_end_].results.deliver();
  throw_data_fault();
  return 1;
}

void CudaStreamGroup::upload(std::span<const Upload> uploads) {
  use_device();
  staging_->upload(uploads, streams_[0].stream);
}

void CudaStreamGroup::prefetch(std::span<const Upload> uploads) {
  use_device();
  staging_->prefetch(uploads);
}

void CudaStreamGroup::launch(const Program& program) {
  use_device();
  reserve_events(program);
  enqueue(program, {});
  mark_finished();
}

void CudaStreamGroup::launch(Replay& replay) {
  use_device();
  BRAID_CUDA(cudaGraphLaunch(static_cast<GraphReplay&>(replay).graph, streams_[0].stream));
  mark_finished();
}

void CudaStreamGroup::download(std::span<const Download> downloads) {
  use_device();
  ProgramEnd& last = ends_[1 - next_end_];
  last.results.send(downloads, streams_[0].stream);
  BRAID_CUDA(cudaEventRecord(last.finished, streams_[0].stream));  // again: the program now ends here
}

std::unique_ptr<Replay> CudaStreamGroup::capture(const Program& program, Timing* timing) {
  use_device();
  reserve_events(program);
  // Thread-local mode: other threads may allocate meanwhile. This one does not.
  BRAID_CUDA(cudaStreamBeginCapture(streams_[0].stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t captured = nullptr;
  try {
    enqueue(program, {.timing = timing, .capturing = true});
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(streams_[0].stream, &captured));
    const GraphHandle discarded(captured);
    cudaGetLastError();
    throw;
  }
  const cudaError_t status = cudaStreamEndCapture(streams_[0].stream, &captured);
  const GraphHandle graph(captured);
  check_cuda(status, "cudaStreamEndCapture");
  // Without the flag, the nodes of a graph lose the priorities of their streams.
  cudaGraphExec_t executable = nullptr;
  BRAID_CUDA(cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority));
  auto replay = std::make_unique<GraphReplay>(executable);
  BRAID_CUDA(cudaGraphUpload(executable, streams_[0].stream));
  return replay;
}

RunTimes CudaStreamGroup::measure(const Program& program) {
  synchronize();
  Timing timing{.launches = {}, .tracing = KernelTracing::current()};
  for (std::size_t stream = 0; stream < program.commands.streams.size(); ++stream) {
    const GreenContexts::Scope scope(green_contexts_, static_cast<int>(stream));
    for (const Command& command : program.commands.streams[stream]) {
      if (command.kind != Command::Kind::launch) continue;
      timing.launches.push_back(
          {make_event(cudaEventDefault), make_event(cudaEventDefault), command.index, static_cast<int>(stream)});
    }
  }
  std::ranges::sort(timing.launches, {}, &Timing::Launch::index);
  std::unique_ptr<Replay> replay;
  if (timing.tracing == nullptr) {
    try {
      replay = capture(program, &timing);
    } catch (const DeviceLost&) {
      throw;
    } catch (const DeviceError&) {  // something in it cannot be captured
    }
  }
  if (replay != nullptr) {
    launch(*replay);
  } else {
    reserve_events(program);
    enqueue(program, {.timing = &timing});
    mark_finished();
  }
  synchronize();
  if (timing.tracing == nullptr) return by_events(timing, replay != nullptr ? "graph replay" : "events");
  RunTimes times = by_tracing(timing);
  return times.launches.empty() ? by_events(timing, "events, as CUPTI recorded nothing") : times;
}

RunTimes CudaStreamGroup::by_events(const Timing& timing, std::string_view clock) {
  RunTimes times{.clock = clock};
  for (const Timing::Launch& launch : timing.launches) {
    float start = 0, finish = 0;  // milliseconds
    BRAID_CUDA(cudaEventElapsedTime(&start, timing.launches.front().start, launch.start));
    BRAID_CUDA(cudaEventElapsedTime(&finish, timing.launches.front().start, launch.finish));
    times.launches.push_back({launch.index, launch.stream, 1e3 * start, 1e3 * finish});
  }
  count_from_first_start(times.launches);
  return times;
}

RunTimes CudaStreamGroup::by_tracing(const Timing& timing) {
  RunTimes times{.clock = "CUPTI"};
  const std::map<std::int32_t, KernelTime> kernels = timing.tracing->collect();
  for (const Timing::Launch& launch : timing.launches) {
    const auto found = kernels.find(launch.index);
    if (found == kernels.end()) continue;  // it started no kernel
    const auto zero = kernels.begin()->second.start;
    const double start = 1e-3 * static_cast<double>(static_cast<std::int64_t>(found->second.start - zero));
    const double duration = 1e-3 * static_cast<double>(found->second.finish - found->second.start);
    times.launches.push_back({launch.index, launch.stream, start, start + duration});
  }
  count_from_first_start(times.launches);
  return times;
}

KernelTiming CudaStreamGroup::time(Kernel& kernel, double enough) {
  constexpr double kLeastMicroseconds = 250;  // least duration of a replay
  constexpr int kMostRepeats = 100, kReplays = 5;
  synchronize();
  const GreenContexts::Scope scope(green_contexts_, 0);
  const EventHandle start = make_event(cudaEventDefault), finish = make_event(cudaEventDefault);
  // The first launch keeps the device busy while the host enqueues the second, and only that is timed.
  const auto microseconds = [&](auto& timed) {
    launch(timed);
    BRAID_CUDA(cudaEventRecord(start, streams_[0].stream));
    launch(timed);
    BRAID_CUDA(cudaEventRecord(finish, streams_[0].stream));
    synchronize();
    float milliseconds = 0;
    BRAID_CUDA(cudaEventElapsedTime(&milliseconds, start, finish));
    return 1e3 * milliseconds;
  };
  CommandLists commands{.streams = {{{Command::Kind::launch, 0}}}};
  const Program program{commands, {&kernel}};
  const double once = microseconds(program);  // its first launch loads libraries, or finds the kernel unusable
  if (once > enough) return {once, 1, "events"};
  const int repeats =
      static_cast<int>(std::clamp(std::ceil(kLeastMicroseconds / std::max(once, 1.0)), 1.0, double{kMostRepeats}));
  commands.streams[0].assign(static_cast<std::size_t>(repeats), {Command::Kind::launch, 0});
  std::unique_ptr<Replay> replay;
  try {
    replay = capture(program);
  } catch (const DeviceError&) {
    return StreamGroup::time(kernel, enough);  // by a clock with another name
  }
  std::vector<double> samples;
  for (int run = 0; run < kReplays; ++run) samples.push_back(microseconds(*replay) / repeats);
  return {median(samples), kReplays, "graph replay"};
}

void CudaStreamGroup::synchronize() {
  use_device();
  wait(device_, streams_[0].stream);  // all others join it
  for (ProgramEnd& end : ends_) end.results.deliver();
  throw_data_fault();
}

void CudaStreamGroup::reserve_events(const Program& program) {
  BRAID_CHECK(static_cast<int>(program.commands.streams.size()) <= size(), Error, "[cuda] the program uses ",
              plural(program.commands.streams.size(), "stream"), ", the group has ", size());
  for (std::size_t s = 0; s < program.commands.streams.size(); ++s) {
    const auto records = std::ranges::count(program.commands.streams[s], Command::Kind::record, &Command::kind);
    const GreenContexts::Scope scope(green_contexts_, static_cast<int>(s));
    std::vector<EventHandle>& events = streams_[s].events;
    while (std::ssize(events) < records) events.push_back(make_event());
  }
}

void CudaStreamGroup::enqueue(const Program& program, Watch watch) {
  fork(program.commands.streams.size());
  try {
    issue(program, watch);
  } catch (...) {
    try {
      join(program.commands.streams.size());  // what was enqueued still comes before what follows
    } catch (const DeviceError&) {
      // Report the first fault only.
    }
    throw;
  }
  join(program.commands.streams.size());
}

void CudaStreamGroup::fork(std::size_t streams) {
  if (streams < 2) return;
  BRAID_CUDA(cudaEventRecord(forked_, streams_[0].stream));
  for (std::size_t s = 1; s < streams; ++s) BRAID_CUDA(cudaStreamWaitEvent(streams_[s].stream, forked_, 0));
}

void CudaStreamGroup::join(std::size_t streams) {
  for (std::size_t s = 1; s < streams; ++s) {
    BRAID_CUDA(cudaEventRecord(streams_[s].joined, streams_[s].stream));
    BRAID_CUDA(cudaStreamWaitEvent(streams_[0].stream, streams_[s].joined, 0));
  }
}

/// CUDA ignores a wait for an event that is not recorded yet, so this issues one launch per stream in rotation, and
/// skips a stream whose event is missing until it is recorded.
void CudaStreamGroup::issue(const Program& program, Watch watch) {
  position_.assign(program.commands.streams.size(), 0);
  records_.assign(program.commands.streams.size(), 0);
  recorded_.assign(static_cast<std::size_t>(program.commands.events), nullptr);
  std::size_t remaining = 0;
  for (const auto& list : program.commands.streams) remaining += list.size();

  while (remaining > 0) {
    const std::size_t before = remaining;
    for (std::size_t s = 0; s < program.commands.streams.size(); ++s) {
      bool launched = false;
      while (!launched && position_[s] < program.commands.streams[s].size()) {
        const Command& command = program.commands.streams[s][position_[s]];
        const auto event = static_cast<std::size_t>(command.index);
        if (command.kind == Command::Kind::wait) {
          if (recorded_[event] == nullptr) break;
          BRAID_CUDA(cudaStreamWaitEvent(streams_[s].stream, recorded_[event], 0));
        } else if (command.kind == Command::Kind::record) {
          recorded_[event] = streams_[s].events[records_[s]++];
          BRAID_CUDA(cudaEventRecord(recorded_[event], streams_[s].stream));
        } else {
          launch_kernel(program, static_cast<int>(s), command, watch);
          launched = true;
        }
        ++position_[s];
        --remaining;
      }
    }
    BRAID_CHECK(remaining < before, Error, "[cuda] the program waits for events that are never recorded");
  }
}

void CudaStreamGroup::launch_kernel(const Program& program, int stream, const Command& command, Watch watch) {
  const OwnStream& own = streams_[static_cast<std::size_t>(stream)];
  const LaunchContext context{.native = &own.handles, .cuda_stream = own.stream};
  Timing* const timing = watch.timing;
  Timing::Launch* times = nullptr;
  const unsigned record_flags = watch.capturing ? cudaEventRecordExternal : cudaEventRecordDefault;
  if (timing != nullptr) {
    times = &*std::ranges::lower_bound(timing->launches, command.index, {}, &Timing::Launch::index);
    BRAID_CUDA(cudaEventRecordWithFlags(times->start, own.stream, record_flags));
    if (timing->tracing != nullptr) timing->tracing->begin(command.index);
  }
  const Range range(program, command.index);
  const GreenContexts::Scope scope(green_contexts_, stream);
  if (observer_ != nullptr) observer_->before_launch(stream, command.index);
  Kernel& kernel = *program.kernels[static_cast<std::size_t>(command.index)];
  watch.capturing ? launch_captured(kernel, context, own.stream, program, command.index) : kernel.launch(context);
  if (observer_ != nullptr) observer_->after_launch(stream, command.index);
  if (timing != nullptr) {
    if (timing->tracing != nullptr) timing->tracing->end();
    BRAID_CUDA(cudaEventRecordWithFlags(times->finish, own.stream, record_flags));
  }
}

/// A library may break a capture without an error: only the end of the capture would fail, without naming the op.
void CudaStreamGroup::launch_captured(Kernel& kernel, const LaunchContext& context, cudaStream_t stream,
                                      const Program& program, std::int32_t index) {
  try {
    kernel.launch(context);
    auto status = cudaStreamCaptureStatusNone;
    BRAID_CUDA(cudaStreamIsCapturing(stream, &status));
    BRAID_CHECK(status == cudaStreamCaptureStatusActive, DeviceError, "what it launches cannot be captured");
  } catch (const DeviceError& error) {
    const auto name = static_cast<std::size_t>(index);
    throw DeviceError(message(name < program.names.size() ? program.names[name] : "a kernel", ": ", error.what()));
  }
}

void CudaStreamGroup::mark_finished() {
  BRAID_CUDA(cudaEventRecord(ends_[next_end_].finished, streams_[0].stream));
  next_end_ = 1 - next_end_;
}

void CudaStreamGroup::throw_data_fault() {
  auto& shared = *static_cast<DataFault*>(fault_.get());
  if (shared.kind == 0) return;
  const DataFault fault = std::exchange(shared, {});
  const bool is_label = fault.kind == DataFault::kLabel;
  throw DataError(message(is_label ? "[cross_entropy] expected labels in [0, " : "[gather] expected indices in [0, ",
                          fault.bound, "), got ", fault.value));
}

}  // namespace braid::cuda
