#pragma once
// CPU streams: one worker thread each. A launched program is handed to all workers that have work in it at once; every
// worker runs its own command list and synchronises with the others only at events. Workers without work keep sleeping.
// A brief program of stream 0 alone runs in the thread that launches it, unless another program is still running or an
// observer is set.

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "core/device/backend.h"
#include "core/device/cpu/event.h"

namespace braid::cpu {

class CpuStreamGroup final : public StreamGroup {
 public:
  explicit CpuStreamGroup(int count);
  /// Finishes what was launched, then joins the workers. Drops faults that were never rethrown.
  ~CpuStreamGroup() override;

  int size() const override { return static_cast<int>(workers_.size()); }
  int admit() override { return synchronize(), 0; }
  void upload(std::span<const Upload> uploads) override;
  using StreamGroup::launch;
  void launch(const Program& program) override;
  void download(std::span<const Download> downloads) override;
  RunTimes measure(const Program& program) override;
  void synchronize() override;
  void set_observer(LaunchObserver* observer) override { observer_ = observer; }

 private:
  /// A launched program. Programs are counted from 1; events carry this number.
  struct Run {
    const Program* program = nullptr;
    std::uint32_t number = 0;
    int remaining = 0;  ///< streams that take part and have not finished; guarded by mutex_
    std::atomic<bool> failed = false;
    std::exception_ptr fault;  ///< the first one; guarded by mutex_
  };

  /// Throws DeviceError in a forked child of the process that made the group.
  void check_process() const;
  /// Ends the workers once they have finished what was launched.
  void stop();
  void work(int stream);
  /// The program to run now, if there is one. Call it with the mutex held.
  Run* current();
  /// Wakes the workers that take part in the current program; if there is none and the group ends, all. Call it with
  /// the mutex held.
  void wake_workers();
  void execute(int stream, Run& run);

  const pid_t process_ = getpid();
  std::deque<Event> events_;  // grows only while nothing is running
  LaunchObserver* observer_ = nullptr;
  std::vector<Download> downloads_;  // to copy once nothing is running

  std::mutex mutex_;
  std::vector<std::condition_variable> work_arrived_;  // per stream
  std::condition_variable work_finished_;
  std::deque<Run> runs_;  // launched since the last synchronize(); addresses are stable
  std::uint32_t launched_ = 0;
  std::uint32_t finished_ = 0;  // programs that all of their streams have finished
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace braid::cpu
