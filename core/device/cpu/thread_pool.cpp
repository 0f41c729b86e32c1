#include "core/device/cpu/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <exception>

#include "core/base/start_thread.h"
#include "core/device/cpu/event.h"

namespace braid::cpu {

namespace {

/// How long a thread spins before it sleeps: tens of microseconds, about the time between two loops of a stream.
/// Measured: docs/benchmarks/pytorch.md, "On a busy machine".
constexpr int kSpins = 4000;

/// Returns once `value` is no longer `old`.
void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

/// Every member has a share of neighbouring pieces. A member that has finished its own takes from the others'.
struct ThreadPool::Loop {
  struct alignas(64) Share {
    std::int64_t begin, end;
    std::int64_t taken;  // used as an atomic
  };

  LoopBody body;
  LoopOrder order;
  int members;
  std::array<Share, kMaxMembers> shares;
  std::atomic<bool> failed = false;
  std::exception_ptr fault;

  Loop(LoopBody b, LoopOrder o, int count, std::int64_t pieces) : body(b), order(o), members(count) {
    for (int i = 0; i < members; ++i) {
      Share& share = shares[static_cast<std::size_t>(i)];
      share.begin = pieces * i / members;
      share.end = pieces * (i + 1) / members;
      share.taken = 0;
    }
  }

  /// Returns when no piece is left to be taken.
  void work(int member) noexcept {
    try {
      take_pieces(member);
    } catch (...) {
      if (!failed.exchange(true)) fault = std::current_exception();
    }
  }

 private:
  void take_pieces(int member) {
    for (int i = 0; i < members; ++i) {
      Share& share = shares[static_cast<std::size_t>((member + i) % members)];
      const std::int64_t size = share.end - share.begin;
      while (true) {
        // The release of a helper's phase publishes what it computed, so this counter may be relaxed.
        const std::int64_t piece = std::atomic_ref(share.taken).fetch_add(1, std::memory_order_relaxed);
        if (piece >= size) break;
        body(order == LoopOrder::forward ? share.begin + piece : share.end - 1 - piece, member);
      }
    }
  }
};

/// A thread of the pool. Its phase counts up: idle, claimed by a caller, called, at work, idle again, and so on.
class ThreadPool::Helper {
 public:
  Helper() {
    start_thread("a loop", [this] { serve(); }).detach();
  }

  /// Asks the helper, if it is idle, to join in. Returns the number of the call, or 0 if it is busy.
  std::uint32_t call(Loop& loop, int member) {
    std::uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (phase % 4 != kIdle || !phase_.compare_exchange_strong(phase, phase + kClaimed, std::memory_order_acquire)) {
      return 0;
    }
    loop_ = &loop;
    member_ = member;
    store_and_notify(phase_, phase + kCalled);
    return phase + kCalled;
  }

  /// When no pieces are left: cancels the call if the helper has not joined, else waits until it is done.
  void dismiss(std::uint32_t call) {
    std::uint32_t phase = call;
    if (phase_.compare_exchange_strong(phase, call + 2, std::memory_order_acquire)) return;
    if (phase == call + 1) wait_while(phase_, phase);
  }

 private:
  enum : std::uint32_t { kIdle, kClaimed, kCalled, kAtWork };

  void serve() {
    while (true) {
      std::uint32_t phase = phase_.load(std::memory_order_acquire);
      if (phase % 4 != kCalled) {
        wait_while(phase_, phase);
      } else if (phase_.compare_exchange_strong(phase, phase + 1, std::memory_order_acquire)) {
        loop_->work(member_);
        store_and_notify(phase_, phase + 2);
      }
    }
  }

  std::atomic<std::uint32_t> phase_ = kIdle;
  Loop* loop_ = nullptr;
  int member_ = 0;
};

ThreadPool& ThreadPool::instance() {
  static ThreadPool* pool = [] {
    pthread_atfork(nullptr, nullptr, [] { pool = new ThreadPool; });  // a forked process has only the calling thread
    return new ThreadPool;
  }();
  return *pool;
}

void ThreadPool::reserve(int threads) {
  const std::lock_guard lock(mutex_);
  const int helpers = std::min(threads, kMaxMembers) - 1;
  for (; size_ < helpers; ++size_) helpers_[static_cast<std::size_t>(size_)] = std::make_unique<Helper>();
}

void ThreadPool::run(int width, std::int64_t pieces, LoopOrder order, LoopBody body) {
  const int size = size_.load(std::memory_order_acquire);
  const int members = static_cast<int>(std::min<std::int64_t>({width, pieces, size + 1, kMaxMembers}));
  Loop loop(body, order, std::max(members, 1), pieces);
  struct Call {
    Helper* helper;
    std::uint32_t number;
  };
  std::array<Call, kMaxMembers> calls;
  int count = 0;
  for (int i = 0; i < size && count + 1 < members; ++i) {
    Helper& helper = *helpers_[static_cast<std::size_t>(i)];
    if (const std::uint32_t number = helper.call(loop, count + 1))
      calls[static_cast<std::size_t>(count++)] = {&helper, number};
  }
  loop.work(0);
  for (int i = 0; i < count; ++i)
    calls[static_cast<std::size_t>(i)].helper->dismiss(calls[static_cast<std::size_t>(i)].number);
  if (loop.fault != nullptr) std::rethrow_exception(loop.fault);
}

}  // namespace braid::cpu

void braid::run_pieces(int width, std::int64_t pieces, LoopOrder order, LoopBody body) {
  cpu::ThreadPool::instance().run(width, pieces, order, body);
}
