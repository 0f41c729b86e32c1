#pragma once
// MPI in this process: it starts once, and ends with the process.

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "core/comm/launch.h"
#include "core/comm/mpi/library.h"

namespace braid::mpi {

/// Polls MPI until something has finished: at first without pauses, then with pauses that grow while nothing moves, and
/// halve when something does. The pauses leave the core to the threads that compute. A thread that yields to one of
/// them on the same core gets the core back milliseconds later; one that sleeps gets it as soon as it wakes up. So
/// after such a yield, the next pauses are sleeps.
class Pauses {
 public:
  /// Starts over, to wait for something else.
  void restart() { idle_tests_ = 0, microseconds_ = 0; }
  /// Calls is_finished() until it returns true, with pauses in between. False if the deadline passes before.
  template <class Test>
  bool wait(std::chrono::steady_clock::time_point deadline, const Test& is_finished) {
    while (true) {
      const auto begin = std::chrono::steady_clock::now();
      if (is_finished()) return true;
      const auto now = std::chrono::steady_clock::now();
      if (now > deadline) return false;
      pause(now - begin);
    }
  }

 private:
  /// Pauses after a test that found nothing finished and took this long.
  void pause(std::chrono::nanoseconds test);

  int idle_tests_ = 0;
  double microseconds_ = 0;
  int sleeps_ = 0;  // until it yields again
};

class Process {
 public:
  static Process& instance();

  /// At the first call, starts MPI, unless the program has done so. Throws CommunicationError if it does not start, or
  /// with another rank or number of ranks.
  void start(const Launch& launch, std::chrono::nanoseconds timeout);
  /// Makes the process end by MPI_Abort, since other ranks may wait for it.
  void fail() { has_failed_ = true; }
  /// The same. If the process then ends with status 0, it prints the first reason, which may have been thrown nowhere.
  void fail(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = reason;
    fail();
  }

  /// Calls a function of MPI. Communicators may be used from several threads, but MPI from one at a time.
  template <class Function, class... Arguments>
  int call(Function function, Arguments... arguments) {
    const std::lock_guard lock(mutex_);
    return function(arguments...);
  }

 private:
  Process() = default;
  void end(int status);
  bool all_ranks_end(std::chrono::nanoseconds timeout);

  std::mutex mutex_;
  bool is_started_ = false;
  std::atomic<bool> has_failed_ = false;
  std::string reason_;
  std::chrono::nanoseconds timeout_{};
};

/// What MPI says about an error.
std::string error_text(int error);

}  // namespace braid::mpi
