#pragma once
// A backend makes memory and streams on one device. Everything above it — tape, scheduler, memory plan, executor — is
// the same for all of them.

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/device/buffer.h"
#include "core/device/device.h"
#include "core/device/program.h"

namespace braid {

/// A program made into one unit that is launched as a whole (a CUDA graph). Must not outlive its stream group.
class Replay {
 public:
  virtual ~Replay() = default;
};

/// Bytes of the host to copy to the device, or of the device to the host.
struct Upload {
  void* target = nullptr;
  const void* source = nullptr;
  std::size_t bytes = 0;
};
using Download = Upload;

/// When a launch ran on its device, microseconds from the first start of its program.
struct LaunchTime {
  std::int32_t index = 0;
  int stream = 0;
  double start = 0;
  double finish = 0;
};

/// When each launch of a program ran, by start, and the clock that says so: "host clock" (CPU), "graph replay" (events
/// in a CUDA graph), "events" (of launches one by one) or "CUPTI".
struct RunTimes {
  std::vector<LaunchTime> launches = {};
  std::string_view clock = {};
};

/// How long a kernel takes alone, over a number of samples, and the clock that says so: one of the above.
struct KernelTiming {
  double microseconds = 0;
  int samples = 0;
  std::string_view clock = {};
};

/// Sorts by start and counts from the first one, as StreamGroup::measure promises.
inline void count_from_first_start(std::vector<LaunchTime>& times) {
  std::ranges::sort(times, {}, &LaunchTime::start);
  const double first = times.empty() ? 0 : times.front().start;
  for (LaunchTime& time : times) time.start -= first, time.finish -= first;
}

/// Sees every kernel of a run start and end, from the thread that runs it. For traces, measuring and tests.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void before_launch(int stream, std::int32_t index) = 0;
  virtual void after_launch(int stream, std::int32_t index) = 0;
};

/// A fixed number of in-order queues with events between them. "Owner" below means the one host thread that uses the
/// group at a time: another thread may follow, but two may not be in methods of a group at once.
class StreamGroup {
 public:
  virtual ~StreamGroup() = default;

  // Launching.

  /// Any thread.
  virtual int size() const = 0;
  /// Owner. Returns once the next program may be prepared, and how many programs may still be running: none on CPU, the
  /// last one on CUDA. Throws what earlier programs threw.
  virtual int admit() = 0;
  /// Owner. Starts the program on all streams and returns at once; a brief one may run in this thread before it
  /// returns. Programs run one after another. Throws Error if the program uses more streams than there are.
  virtual void launch(const Program& program) = 0;
  /// Owner. Makes a program into one unit, to be launched any number of times. Null if the device does not support
  /// this. Throws DeviceError with the name of the launch that cannot be captured; the program can still be launched.
  virtual std::unique_ptr<Replay> capture(const Program&) { return nullptr; }
  /// Owner. Launches what capture() made, like launch(program).
  virtual void launch(Replay&) {}
  /// Owner. Waits until everything launched has finished. Rethrows the first exception that a kernel threw since the
  /// last call; after a fault the remaining kernels of that program are skipped.
  virtual void synchronize() = 0;

  // Transfers.

  /// Owner. Copies host data to the device, after everything launched before and ahead of the next launch. The sources
  /// may be reused at once. On CUDA the transfer itself overlaps with what is running.
  virtual void upload(std::span<const Upload> uploads) = 0;
  /// Owner. Begins to copy host data that will be among the sources of the next upload, while programs run; targets are
  /// ignored. The data must stay unchanged until then. Optional; does nothing on CPU.
  virtual void prefetch(std::span<const Upload>) {}
  /// Owner. Copies device data to the host, after the last launch and ahead of the next. The targets hold it once
  /// admit() or synchronize() finds that the program has finished, also if that throws. Once per launch.
  virtual void download(std::span<const Download> downloads) = 0;

  // Timing, while nothing else is running.

  /// Owner. Runs a program once and returns when each launch ran on the device.
  virtual RunTimes measure(const Program& program) = 0;
  /// Owner. Runs a bound kernel alone, several times, and returns how long it takes: the fastest of some measured runs,
  /// or a more exact time if the device provides one. One that takes more than `enough` microseconds is measured once,
  /// by the clock of measure().
  virtual KernelTiming time(Kernel& kernel, double enough = std::numeric_limits<double>::infinity());
  /// Owner. Sets the observer; null for none. It must outlive its use, and is called from the threads that launch
  /// kernels.
  virtual void set_observer(LaunchObserver* observer) = 0;
};

struct StreamOptions {
  int count = 1;
  /// The number of SMs of each stream, where streams get disjoint parts of the device. Empty: all streams share the
  /// device. CUDA only, by green contexts; throws DeviceError if the driver lacks them.
  std::vector<int> partition = {};
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device device() const = 0;
  virtual const DeviceInfo& info() const = 0;
  /// Makes its device current for this thread's calls of the device's libraries.
  virtual void make_current() {}
  /// Throws DeviceError with needed and free bytes if there is not enough.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Fills device memory with zeros.
  virtual void clear(void* target, std::size_t bytes) = 0;
  virtual void copy_to_device(void* target, const void* source, std::size_t bytes) = 0;
  virtual void copy_to_host(void* target, const void* source, std::size_t bytes) = 0;
  virtual std::unique_ptr<StreamGroup> make_streams(const StreamOptions& options) = 0;
};

/// The backend of a device. Throws DeviceError if the device is not usable, saying why.
/// `threads` bounds the cores of a CPU backend; 0 means all that the process may use.
std::unique_ptr<Backend> make_backend(const Device& device, int threads = 0);

}  // namespace braid
