#include "core/comm/mpi/process.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "core/base/error.h"
#include "core/base/failure_reason.h"

namespace braid::mpi {

void Pauses::pause(std::chrono::nanoseconds test) {
  // A test that takes long has moved data, and the next one will probably do so too.
  constexpr std::chrono::microseconds kMoved{15}, kLongYield{100};
  constexpr int kYields = 50, kSleeps = 1000;
  constexpr double kFirst = 10, kLongest = 1000, kGrowth = 1.2;
  if (test > kMoved) {
    idle_tests_ = 0;
    microseconds_ /= 2;
    if (sleeps_ == 0) return;
  }
  if (sleeps_ == 0 && idle_tests_ < kYields) {
    ++idle_tests_;
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::yield();
    if (std::chrono::steady_clock::now() - begin > kLongYield) sleeps_ = kSleeps;
    return;
  }
  sleeps_ = std::max(sleeps_ - 1, 0);
  microseconds_ = std::clamp(microseconds_ * kGrowth, kFirst, kLongest);
  std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(microseconds_));
}

std::string error_text(int error) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  library().error_string(error, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

Process& Process::instance() {
  static Process* const process = new Process;  // used when the process exits
  return *process;
}

void Process::start(const Launch& launch, std::chrono::nanoseconds timeout) {
  const Library& mpi = library();
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
  if (!is_started_) {
    int is_initialized = 0, threads = MPI_THREAD_SINGLE;
    mpi.initialized(&is_initialized);
    if (is_initialized != 0) {
      mpi.query_thread(&threads);
    } else {
      // By default an in-place all-reduce sends whole buffers to the first rank and back: twice the bytes for two
      // ranks, and more for many. Rabenseifner's algorithm sends pieces. A value that the user has set is kept.
      setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "3", 0);
      const int error = mpi.init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads);
      BRAID_CHECK(error == MPI_SUCCESS, CommunicationError, "[mpi] MPI does not start: ", error_text(error));
      mpi.comm_set_errhandler(mpi.world, mpi.errors_return);
      on_exit([](int status, void*) { instance().end(status); }, nullptr);
    }
    BRAID_CHECK(threads >= MPI_THREAD_SERIALIZED, CommunicationError,
                "[mpi] this MPI does not take calls from several threads: initialise it with MPI_THREAD_SERIALIZED");
    is_started_ = true;
  }
  int rank = 0, size = 0;
  mpi.comm_rank(mpi.world, &rank);
  mpi.comm_size(mpi.world, &size);
  if (rank == launch.rank && size == launch.size) return;
  has_failed_ = true;
  const std::string launcher = launch.launcher.empty() ? "the launcher" : launch.launcher;
  throw CommunicationError(message("[mpi] ", launcher, " started this process as rank ", launch.rank, " of ",
                                   launch.size, ", Open MPI as rank ", rank, " of ", size,
                                   ": on CPU, start the ranks with Open MPI's mpirun, or with srun --mpi=pmix"));
}

/// Whether all ranks reach their end within the timeout.
bool Process::all_ranks_end(std::chrono::nanoseconds timeout) {
  const Library& mpi = library();
  MPI_Request request{};
  if (call(mpi.ibarrier, mpi.world, &request) != MPI_SUCCESS) return false;
  int error = MPI_SUCCESS, is_done = 0;
  Pauses().wait(deadline_after(timeout), [&] {
    error = call(mpi.test, &request, &is_done, MPI_STATUS_IGNORE);
    return error != MPI_SUCCESS || is_done != 0;
  });
  return error == MPI_SUCCESS && is_done != 0;
}

/// MPI_Finalize waits for all ranks without a timeout, so it is called only when all of them are about to call it.
void Process::end(int status) {
  const Library& mpi = library();
  int is_finalized = 0;
  call(mpi.finalized, &is_finalized);
  if (is_finalized != 0) return;
  // Interrupted ranks also end with an error, but all at the same time.
  constexpr std::chrono::seconds kInterrupted{2};
  if (!has_failed_ &&
      all_ranks_end(status == 0 ? timeout_ : std::min<std::chrono::nanoseconds>(kInterrupted, timeout_))) {
    call(mpi.finalize);
    return;
  }
  if (!has_failed_ && status == 0) {
    int rank = 0;
    call(mpi.comm_rank, mpi.world, &rank);
    std::cerr << message("[mpi] rank ", rank, " has come to its end, and the others have not within ",
                         in_seconds(timeout_), ": one of them is gone, late, or makes other calls\n");
  } else if (const std::lock_guard lock(mutex_); status == 0 && !reason_.empty()) {
    std::cerr << reason_ + '\n';
  }
  std::cout.flush();  // MPI_Abort ends the process at once
  std::fflush(nullptr);
  call(mpi.abort, mpi.world, status != 0 ? status : 1);
}

}  // namespace braid::mpi
