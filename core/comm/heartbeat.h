#pragma once
// Detects ranks that die or hang, and tells what each is doing. A collective only shows that some rank is late; the
// heartbeat shows which one, and detects a death at once. All ranks keep a connection to rank 0; a heartbeat is a line
// with the last call of its rank. Rank 0 watches the others, and rank 1 watches rank 0.

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"

namespace braid {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor();
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// A thread on every rank that sends heartbeats, and expects them from the ranks that it watches.
class Heartbeat {
 public:
  /// All ranks call it: rank 0 tells the others over the communicator where it listens. If the connection to a rank
  /// closes without a goodbye, or is silent for the timeout, `on_loss` is called once with a sentence that names the
  /// rank and its last call. A rank that cannot connect is not watched.
  Heartbeat(Communicator& ranks, bool one_host, std::chrono::nanoseconds timeout,
            std::function<void(const std::string&)> on_loss);
  /// Ends.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Says goodbye: from now on this rank neither is watched nor watches others. May be called from any thread.
  void end();

  /// The next heartbeats say that this rank makes a call, as in "all_gather of 48 bytes". May be called from any
  /// thread.
  void begin_call(const std::string& call);
  /// What is known of other ranks, as in "rank 1 last called barrier (call 7); rank 2 has died": rank 0 hears all, the
  /// others hear rank 0. Leaves out ranks whose last call is this one's. May be called from any thread.
  std::string other_states();

  /// The number of connected ranks: those that have connected, and have neither said goodbye nor been lost. May be
  /// called from any thread.
  int connections() const { return connections_; }

 private:
  struct Meeting;
  struct Peer {
    int rank;
    Descriptor connection;
    std::chrono::steady_clock::time_point heard;
    std::string unread = {};  // the beginning of a line
  };

  void connect(const Meeting& meeting);
  void admit(const Meeting& meeting);
  void run(const Meeting& meeting);
  /// Reads the peers' messages and forgets peers that said goodbye. Returns a sentence about a lost rank, or an empty
  /// text.
  std::string missed();

  const int rank_;
  const bool watches_;
  const std::chrono::nanoseconds timeout_, interval_;
  const std::function<void(const std::string&)> on_loss_;
  const Descriptor ended_;  // an eventfd
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;                   // guards the next two
  std::map<int, std::string> states_;  // per rank, also of ranks that have left: its last call, and whether it is lost
  std::int64_t calls_ = 0;             // number of calls of this rank
  // Used by the thread only.
  Descriptor listener_;
  std::vector<Peer> peers_;
  std::thread thread_;
};

}  // namespace braid
