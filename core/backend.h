#pragma once
// A backend makes memory and streams on one device. Everything above it — tape, scheduler, memory plan, executor — is
// the same for all of them.

#include <memory>
#include <vector>

#include "core/buffer.h"
#include "core/device.h"
#include "core/kernel.h"

namespace braid {

/// One step of a stream: launch a kernel, or record or wait for an event.
struct Instruction {
  enum class Kind : std::uint8_t { launch, record, wait };
  Kind kind = Kind::launch;
  std::int32_t index = 0;  ///< event index for record and wait; a number for observers (the node) for launch
  Kernel* kernel = nullptr;
};

/// What each stream does in one step. Must stay alive and unchanged until the streams have been synchronised.
struct Program {
  std::vector<std::vector<Instruction>> streams;
  std::int32_t events = 0;
};

/// Sees every kernel of a run start and end, from the thread that runs it. For traces, measuring and tests.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void before_launch(int stream, std::int32_t index) = 0;
  virtual void after_launch(int stream, std::int32_t index) = 0;
};

/// A fixed number of in-order queues with events between them. Used from one host thread at a time.
class StreamGroup {
 public:
  virtual ~StreamGroup() = default;
  virtual int size() const = 0;
  /// Starts the program on all streams and returns at once. Programs run one after another.
  /// Throws Error if the program wants more streams than there are.
  virtual void launch(const Program& program) = 0;
  /// Waits until everything launched has finished. Rethrows the first exception that a kernel threw since the last
  /// call; after a fault the remaining kernels of that program are skipped.
  virtual void synchronize() = 0;
  /// Null for none. Only while nothing is running. The observer must outlive its use.
  virtual void set_observer(LaunchObserver* observer) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device device() const = 0;
  virtual const DeviceInfo& info() const = 0;
  /// Throws DeviceError with needed and free bytes if there is not enough.
  virtual Buffer allocate(std::size_t bytes) = 0;
  virtual void copy_to_device(void* target, const void* source, std::size_t bytes) = 0;
  virtual void copy_to_host(void* target, const void* source, std::size_t bytes) = 0;
  virtual std::unique_ptr<StreamGroup> make_streams(int count) = 0;
};

/// The backend of a device. Throws DeviceError if the device is not usable, saying why.
/// `threads` bounds the cores of a CPU backend; 0 means all that the process may use.
std::unique_ptr<Backend> make_backend(const Device& device, int threads = 0);

}  // namespace braid
