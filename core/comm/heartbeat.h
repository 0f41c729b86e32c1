#pragma once
// Detects ranks that die or hang. A collective only shows that some rank is late; the heartbeat shows which one, and
// detects a death at once. All ranks keep a connection to rank 0. Rank 0 watches the others, and rank 1 watches rank 0.

#include <atomic>
#include <chrono>
#include <functional>
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
  /// rank. A rank that cannot connect is not watched.
  Heartbeat(Communicator& ranks, bool one_host, std::chrono::nanoseconds timeout,
            std::function<void(const std::string&)> on_loss);
  /// Ends.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Says goodbye: from now on this rank neither is watched nor watches others. May be called from any thread.
  void end();

  /// The number of connected ranks: those that have connected, and have neither said goodbye nor been lost. May be
  /// called from any thread.
  int connections() const { return connections_; }

 private:
  struct Meeting;
  struct Peer {
    int rank;
    Descriptor connection;
    std::chrono::steady_clock::time_point heard;
  };

  void connect(const Meeting& meeting);
  void admit(const Meeting& meeting);
  void run(const Meeting& meeting);
  /// Reads the peers' messages and forgets peers that said goodbye. Returns a sentence about a lost rank, or an empty
  /// text.
  std::string missed();

  const int rank_;
  const std::chrono::nanoseconds timeout_, interval_;
  const std::function<void(const std::string&)> on_loss_;
  const Descriptor ended_;  // an eventfd
  std::atomic<int> connections_ = 0;
  // Used by the thread only.
  Descriptor listener_;
  std::vector<Peer> peers_;
  std::thread thread_;
};

}  // namespace braid
