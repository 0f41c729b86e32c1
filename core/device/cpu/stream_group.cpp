#include "core/device/cpu/stream_group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/start_thread.h"

namespace braid::cpu {

namespace {

/// Stream 0 always does, so that a program without work finishes too.
bool takes_part(int stream, const Program& program) {
  return stream == 0 || (stream < std::ssize(program.commands.streams) &&
                         !program.commands.streams[static_cast<std::size_t>(stream)].empty());
}

/// Notes when each launch starts and ends; every stream writes to its own list. Another observer sees the launches too.
class Stopwatch final : public LaunchObserver {
 public:
  Stopwatch(int streams, LaunchObserver* other) : times_(static_cast<std::size_t>(streams)), other_(other) {}
  void before_launch(int stream, std::int32_t index) override {
    if (other_ != nullptr) other_->before_launch(stream, index);
    times_[static_cast<std::size_t>(stream)].push_back({index, stream, now(), 0});
  }
  void after_launch(int stream, std::int32_t index) override {
    times_[static_cast<std::size_t>(stream)].back().finish = now();
    if (other_ != nullptr) other_->after_launch(stream, index);
  }

  std::vector<LaunchTime> times() const {
    std::vector<LaunchTime> all;
    for (const auto& list : times_) all.insert(all.end(), list.begin(), list.end());
    count_from_first_start(all);
    return all;
  }

 private:
  static double now() {
    using Microseconds = std::chrono::duration<double, std::micro>;
    return Microseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  std::vector<std::vector<LaunchTime>> times_;
  LaunchObserver* const other_;
};

}  // namespace

CpuStreamGroup::CpuStreamGroup(int count) : work_arrived_(static_cast<std::size_t>(std::max(count, 0))) {
  BRAID_CHECK(count >= 1, DeviceError, "[cpu] expected at least one stream, got ", count);
  try {
    for (int stream = 0; stream < count; ++stream) {
      workers_.push_back(start_thread("a stream", [this, stream] { work(stream); }));
    }
  } catch (const DeviceError&) {
    stop();
    throw;
  }
}

CpuStreamGroup::~CpuStreamGroup() { stop(); }

void CpuStreamGroup::check_process() const {
  BRAID_CHECK(getpid() == process_, DeviceError,
              "[cpu] the streams belong to the process that this one was forked from, with their threads: make the "
              "session after fork()");
}

void CpuStreamGroup::stop() {
  // A forked process has none of these threads, and destroying a condition variable waits for its waiters.
  if (getpid() != process_) {
    for (std::thread& worker : workers_) worker.detach();
    new std::vector<std::condition_variable>(std::move(work_arrived_));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_workers();
  }
  for (std::thread& worker : workers_) worker.join();
}

void CpuStreamGroup::upload(std::span<const Upload> uploads) {
  synchronize();
  for (const Upload& upload : uploads) {
    if (upload.bytes > 0) std::memcpy(upload.target, upload.source, upload.bytes);
  }
}

void CpuStreamGroup::download(std::span<const Download> downloads) {
  downloads_.assign(downloads.begin(), downloads.end());
}

void CpuStreamGroup::launch(const Program& program) {
  BRAID_CHECK(static_cast<int>(program.commands.streams.size()) <= size(), Error, "[cpu] the program uses ",
              program.commands.streams.size(), " streams, there are ", size());
  check_process();
  std::unique_lock lock(mutex_);
  if (events_.size() < static_cast<std::size_t>(program.commands.events)) {
    work_finished_.wait(lock, [this] { return finished_ == launched_; });
    while (events_.size() < static_cast<std::size_t>(program.commands.events)) events_.emplace_back();
  }
  Run& run = runs_.emplace_back();
  run.program = &program;
  run.number = launched_ + 1;
  for (int stream = 0; stream < size(); ++stream) run.remaining += takes_part(stream, program);
  // An observer is called from the threads of the streams.
  if (program.brief && observer_ == nullptr && run.remaining == 1 && finished_ == launched_) {
    lock.unlock();
    execute(0, run);
    lock.lock();
    ++finished_;
  }
  ++launched_;
  if (&run == current()) wake_workers();
}

CpuStreamGroup::Run* CpuStreamGroup::current() {
  return finished_ == launched_ ? nullptr : &runs_[runs_.size() - (launched_ - finished_)];
}

void CpuStreamGroup::wake_workers() {
  const Run* run = current();
  for (int stream = 0; stream < size(); ++stream) {
    const bool wanted = run != nullptr ? takes_part(stream, *run->program) : stopping_;
    if (wanted) work_arrived_[static_cast<std::size_t>(stream)].notify_one();
  }
}

RunTimes CpuStreamGroup::measure(const Program& program) {
  synchronize();
  Stopwatch stopwatch(size(), observer_);
  const struct Restored {
    LaunchObserver*& observer;
    LaunchObserver* before;
    ~Restored() { observer = before; }
  } restored{observer_, std::exchange(observer_, &stopwatch)};
  launch(program);
  synchronize();
  return {stopwatch.times(), "host clock"};
}

void CpuStreamGroup::synchronize() {
  std::exception_ptr fault;
  if (!runs_.empty()) {
    check_process();
    std::unique_lock lock(mutex_);
    work_finished_.wait(lock, [this] { return finished_ == launched_; });
    for (const Run& run : runs_) {
      if (fault == nullptr) fault = run.fault;
    }
    runs_.clear();
  }
  for (const Download& download : downloads_) std::memcpy(download.target, download.source, download.bytes);
  downloads_.clear();
  if (fault != nullptr) std::rethrow_exception(fault);
}

void CpuStreamGroup::work(int stream) {
  std::uint32_t done = 0;  // the last program that it took part in
  std::unique_lock lock(mutex_);
  while (true) {
    // All streams finish a program before any starts the next: programs share the arena.
    Run* run = nullptr;
    work_arrived_[static_cast<std::size_t>(stream)].wait(lock, [&] {
      run = current();
      if (run != nullptr && (run->number == done || !takes_part(stream, *run->program))) run = nullptr;
      return run != nullptr || (stopping_ && finished_ == launched_);
    });
    if (run == nullptr) return;
    lock.unlock();
    execute(stream, *run);
    lock.lock();
    done = run->number;
    if (--run->remaining > 0) continue;
    ++finished_;
    wake_workers();
    work_finished_.notify_all();
  }
}

void CpuStreamGroup::execute(int stream, Run& run) {
  if (stream >= static_cast<int>(run.program->commands.streams.size())) return;
  for (const Command& command : run.program->commands.streams[static_cast<std::size_t>(stream)]) {
    switch (command.kind) {
      case Command::Kind::record: events_[static_cast<std::size_t>(command.index)].record(run.number); break;
      case Command::Kind::wait: events_[static_cast<std::size_t>(command.index)].wait(run.number); break;
      case Command::Kind::launch:
        // After a fault, events are still recorded, so that no stream hangs, but no kernel computes on garbage.
        if (run.failed.load(std::memory_order_relaxed)) break;
        try {
          if (observer_ != nullptr) observer_->before_launch(stream, command.index);
          run.program->kernels[static_cast<std::size_t>(command.index)]->launch({});
          if (observer_ != nullptr) observer_->after_launch(stream, command.index);
        } catch (...) {
          run.failed.store(true, std::memory_order_relaxed);
          const std::lock_guard lock(mutex_);
          if (run.fault == nullptr) run.fault = std::current_exception();
        }
        break;
    }
  }
}

}  // namespace braid::cpu
