#pragma once
// A point in a CPU stream that other streams wait for. An event counts the programs that have recorded it, so it is
// never reset: waiting for program n means waiting until the count is at least n.

#include <atomic>
#include <cstdint>

namespace braid::cpu {

/// Hints to the core that this is a spin loop.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Stores the value and wakes the threads that wait for it to change. The notification first loads whether there are
/// any. On x86 that load may overtake a release store, and a thread that falls asleep in between is never woken; so the
/// store is sequentially consistent.
inline void store_and_notify(std::atomic<std::uint32_t>& value, std::uint32_t next) {
  value.store(next, std::memory_order_seq_cst);
  value.notify_all();
}

class Event {
 public:
  void record(std::uint32_t program) { store_and_notify(program_, program); }

  /// Spins for about the length of a small kernel, then sleeps on a futex. Longer spins take cores from other programs.
  /// Measured: docs/benchmarks/notebook.md.
  void wait(std::uint32_t program) const {
    constexpr int kSpins = 1000;
    for (int spin = 0; spin < kSpins; ++spin) {
      if (reached(program)) return;
      pause();
    }
    for (std::uint32_t seen = program_.load(std::memory_order_acquire); !reached(program);
         seen = program_.load(std::memory_order_acquire)) {
      program_.wait(seen, std::memory_order_acquire);
    }
  }

 private:
  /// Wraps around after four billion programs, hence the signed difference.
  bool reached(std::uint32_t program) const {
    return static_cast<std::int32_t>(program_.load(std::memory_order_acquire) - program) >= 0;
  }

  std::atomic<std::uint32_t> program_{0};
};

}  // namespace braid::cpu
