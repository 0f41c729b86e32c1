#pragma once
// CUDA streams. Every stream has its own cuDNN handle and cuBLASLt handle. A program forks from stream 0, runs, and
// joins it again, so that stream 0 alone orders one program after another and a capture of it is the whole program.

#include <optional>

#include "core/device/backend.h"
#include "core/device/cuda/green_contexts.h"
#include "core/device/cuda/loaded/kernel_tracing.h"
#include "core/device/cuda/results.h"
#include "core/device/cuda/staging.h"
#include "core/device/cuda/stream_handles.h"

namespace braid::cuda {

class CudaStreamGroup final : public StreamGroup {
 public:
  /// Stream 0 gets the highest priority and the last one the lowest. Throws DeviceError.
  CudaStreamGroup(int device, const StreamOptions& options);
  /// Finishes what was launched. Drops faults that were never rethrown.
  ~CudaStreamGroup() override;

  int size() const override { return static_cast<int>(streams_.size()); }
  int admit() override;
  void upload(std::span<const Upload> uploads) override;
  void prefetch(std::span<const Upload> uploads) override;
  void launch(const Program& program) override;
  std::unique_ptr<Replay> capture(const Program& program) override { return capture(program, nullptr); }
  void launch(Replay& replay) override;
  void download(std::span<const Download> downloads) override;
  /// Replays the program as a graph, with events around every launch. If it cannot be captured, or CUPTI is the clock,
  /// launches it.
  RunTimes measure(const Program& program) override;
  /// Replays a graph of many launches twice and times the second replay by events. The host enqueues it while the first
  /// one runs, so the time includes no work of the host.
  KernelTiming time(Kernel& kernel, double enough) override;
  void synchronize() override;
  /// The observer sees kernels being enqueued, not running; a replay shows it nothing.
  void set_observer(LaunchObserver* observer) override { observer_ = observer; }

 private:
  struct OwnStream {
    StreamHandle stream;
    LibraryHandles libraries;
    EventHandle joined;
    std::vector<EventHandle> events;   ///< for the records of a program in this stream
    Handle<void*, cudaFree> arrivals;  ///< block counters
    StreamHandles handles;             ///< the above, as kernels see them
  };
  struct ProgramEnd {
    EventHandle finished;
    Results results;
  };
  /// Clocks of a program that is being measured: events around every launch, and CUPTI while there is a KernelTracing.
  struct Timing {
    struct Launch {
      EventHandle start, finish;
      std::int32_t index;
      int stream;
    };
    std::vector<Launch> launches;  ///< by index
    KernelTracing* tracing = nullptr;
  };

  /// What to do around every launch, in addition to launching.
  struct Watch {
    Timing* timing = nullptr;  ///< take its time
    bool capturing = false;    ///< find out whether it breaks the capture
  };

  void use_device() const;
  OwnStream make_stream(int index, int count);
  void reserve_events(const Program& program);
  /// Fork, all launches, join. Throws what a kernel's launch throws, with all streams joined.
  void enqueue(const Program& program, Watch watch);
  void fork(std::size_t streams);
  void join(std::size_t streams);
  void issue(const Program& program, Watch watch);
  void launch_kernel(const Program& program, int stream, const Command& command, Watch watch);
  static void launch_captured(Kernel& kernel, const LaunchContext& context, cudaStream_t stream, const Program& program,
                              std::int32_t index);
  std::unique_ptr<Replay> capture(const Program& program, Timing* timing);
  static RunTimes by_events(const Timing& timing, std::string_view clock);
  static RunTimes by_tracing(const Timing& timing);
  void mark_finished();
  void throw_data_fault();

  int device_;
  GreenContexts green_contexts_;  // before the streams that live in them
  std::vector<OwnStream> streams_;
  EventHandle forked_;
  ProgramEnd ends_[2];  // the last two programs, alternating
  int next_end_ = 0;
  std::optional<Staging> staging_;     // always set; made once the device is current
  Handle<void*, cudaFreeHost> fault_;  // a DataFault that kernels can write
  LaunchObserver* observer_ = nullptr;

  // While issuing: the position of every stream, and the number of events that it has recorded; the event of the stream
  // that stands for each event of the program, or null as long as it is not recorded.
  std::vector<std::size_t> position_, records_;
  std::vector<cudaEvent_t> recorded_;
};

}  // namespace braid::cuda
