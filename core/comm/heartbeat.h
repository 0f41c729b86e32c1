#pragma once
// Notices ranks that die or hang. A collective only knows that somebody has not come; this knows who, and of a death at
// once. All ranks keep a connection to rank 0. Rank 0 watches the others, and rank 1 watches rank 0.

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

/// A thread of every rank that sends signs of life, and expects them of whom it watches.
class Heartbeat {
 public:
  /// All ranks call it: rank 0 tells the others over the communicator where it listens. If the connection to a rank
  /// ends without a goodbye, or brings nothing for the timeout, `on_loss` is called, once, with a sentence that names
  /// the rank. A rank that cannot connect is not watched.
  Heartbeat(Communicator& ranks, bool one_host, std::chrono::nanoseconds timeout,
            std::function<void(const std::string&)> on_loss);
  /// Ends.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Says goodbye: nobody misses this rank any more, and it misses nobody. May be called from any thread.
  void end();

  /// The number of ranks that it is connected to: of those that have come, the ones that have neither said goodbye nor
  /// been missed. May be called from any thread.
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
  /// Reads what the peers say and forgets those that said goodbye. Whom it misses, or an empty text.
  std::string missed();

  const int rank_;
  const std::chrono::nanoseconds timeout_, interval_;
  const std::function<void(const std::string&)> on_loss_;
  const Descriptor ended_;  // an eventfd
  std::atomic<int> connections_ = 0;
  // Of the thread.
  Descriptor listener_;
  std::vector<Peer> peers_;
  std::thread thread_;
};

}  // namespace braid
