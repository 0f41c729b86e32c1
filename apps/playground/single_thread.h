#pragma once
// What libc++ leaves out where there are neither threads nor files, as in WebAssembly: every source of the playground
// includes it first. A call runs on the one thread of its page, so locks are always free, and nothing starts a thread.

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace std {

struct mutex {
  void lock() {}
  void unlock() {}
};
struct shared_mutex : mutex {};
template <class Mutex>
struct shared_lock {
  explicit shared_lock(Mutex&) {}
};
struct condition_variable {
  void notify_one() {}
  void notify_all() {}
  template <class... Arguments>
  void wait(Arguments&&...) {}
  template <class... Arguments>
  bool wait_for(Arguments&&...) {
    return true;
  }
};
struct thread {
  struct id {
    friend bool operator==(id, id) = default;
  };
  thread() = default;
  template <class Work>
  explicit thread(Work&&) {
    throw runtime_error("a page has no threads");
  }
  bool joinable() const { return false; }
  void join() {}
};
struct jthread : thread {
  using thread::thread;
};
namespace this_thread {
inline thread::id get_id() { return {}; }
}  // namespace this_thread

/// Writes nothing, and says so.
template <>
struct basic_ofstream<char> : ostream {
  explicit basic_ofstream(const filesystem::path&) : ostream(nullptr) {}
  void close() {}
};

namespace filesystem {
inline void rename(const path&, const path&, error_code&) {}
template <class... Arguments>
bool exists(Arguments&&...) {
  return false;
}
inline path current_path(error_code&) { return {}; }
}  // namespace filesystem

}  // namespace std
