// Ranks that detect each other's loss. Ranks that die or hang are processes, which talk through a pipe until they are
// connected.

#include "core/comm/heartbeat.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>

#include "core/comm/local/local_ranks.h"
#include "tests/core/on_all.h"

namespace braid::testing {
namespace {

using namespace std::chrono_literals;

/// Two ranks, of which rank 0 can tell the other something.
class Pipe final : public Communicator {
 public:
  Pipe() { REQUIRE(pipe(ends_) == 0); }
  ~Pipe() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  void join(int rank) { rank_ = rank; }
  int rank() const override { return rank_; }
  int size() const override { return 2; }
  std::string_view name() const override { return "pipe"; }
  Link link() const override { return {}; }
  void run(const CollectiveCall& call, const void*, void* data, const LaunchContext&) override {
    if (call.kind != Kind::broadcast) std::terminate();
    const auto count = static_cast<std::size_t>(call.count);
    if ((rank_ == 0 ? write(ends_[1], data, count) : read(ends_[0], data, count)) != call.count) std::terminate();
  }
  void abort(const std::string&) override { std::terminate(); }

 private:
  int ends_[2] = {-1, -1}, rank_ = 0;
};

/// Waits for what other threads and processes do. Whether it came true: only a hang takes a minute.
template <class Condition>
bool comes_true(const Condition& condition) {
  for (int wait = 0; wait < 60'000 && !condition(); ++wait) std::this_thread::sleep_for(1ms);
  return condition();
}

/// Something that one process tells another.
class Signal {
 public:
  Signal() {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    reading_ = Descriptor(ends[0]);
    writing_ = Descriptor(ends[1]);
  }
  bool send() const { return write(writing_.get(), "", 1) == 1; }
  /// Returns false if the other process ends without sending.
  bool wait() {
    writing_ = Descriptor();
    char byte = 0;
    return read(reading_.get(), &byte, 1) == 1;
  }

 private:
  Descriptor reading_, writing_;
};

enum class Fate { dies, hangs, leaves };

/// What this process, a rank that watches the other or not, knows of a process that meets its fate once both are
/// connected.
std::string loss_of(int rank, Fate fate, std::chrono::nanoseconds timeout, int observer) {
  Pipe ranks;
  Signal connected;
  const pid_t process = fork();
  REQUIRE(process >= 0);
  ranks.join(process == 0 ? rank : observer);
  if (process == 0) {
    {
      Heartbeat heartbeat(ranks, true, timeout, [](const std::string&) {});
      heartbeat.begin_call("barrier");
      if (!comes_true([&] { return heartbeat.connections() == 1; }) || !connected.wait()) _exit(1);
      if (fate == Fate::dies) _exit(0);
      if (fate == Fate::hangs) raise(SIGSTOP);
    }
    _exit(0);
  }
  std::string reason;
  bool met = false, parted = false;
  {
    Heartbeat heartbeat(ranks, true, timeout, [&](const std::string& why) { reason = why; });
    met = comes_true(
              [&] { return heartbeat.connections() == 1 && heartbeat.other_states().ends_with("barrier (call 1)"); }) &&
          connected.send();
    parted = comes_true([&] { return heartbeat.connections() == 0; });
    if (observer > 1) reason += heartbeat.other_states();
  }
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  REQUIRE(met);
  REQUIRE(parted);
  return reason;
}

}  // namespace

TEST_CASE("a rank that dies or hangs is named with its last call, and one that says goodbye is not") {
  for (const int rank : {0, 1}) {
    CHECK(loss_of(rank, Fate::dies, 60s, 1 - rank) ==
          message("rank ", rank, " has died; it last called barrier (call 1)"));
    CHECK(loss_of(rank, Fate::hangs, 250ms, 1 - rank) ==
          message("rank ", rank, " has given no sign of life for 0.25 s; it last called barrier (call 1)"));
    CHECK(loss_of(rank, Fate::leaves, 60s, 1 - rank).empty());
  }
}

TEST_CASE("a rank that watches no other knows that rank 0 has died") {
  CHECK(loss_of(0, Fate::dies, 60s, 2) == "rank 0 has died; it last called barrier (call 1)");
  CHECK(loss_of(0, Fate::leaves, 60s, 2) == "rank 0 last called barrier (call 1)");
}

TEST_CASE("four ranks that live report no loss, in whatever order they end") {
  constexpr int kSize = 4;
  std::atomic<int> losses = 0;
  std::vector<int> order{0, 1, 2, 3};
  do {
    LocalRanks ranks(kSize);
    std::vector<std::unique_ptr<Heartbeat>> heartbeats(kSize);
    on_all(ranks, [&](Communicator& own) {
      heartbeats[static_cast<std::size_t>(own.rank())] =
          std::make_unique<Heartbeat>(own, true, 60s, [&](const std::string&) { ++losses; });
    });
    // Rank 0 is connected to all remaining ranks, and they to rank 0.
    const auto all_know = [&] {
      const auto others = std::ranges::count_if(heartbeats, [](const auto& one) { return one != nullptr; }) - 1;
      return std::ranges::all_of(heartbeats, [&](const auto& one) {
        if (one == nullptr) return true;
        if (one == heartbeats.front()) return one->connections() == others;
        return one->connections() == (heartbeats.front() == nullptr ? 0 : 1);
      });
    };
    REQUIRE(comes_true(all_know));
    for (const int rank : order) {
      auto& heartbeat = heartbeats[static_cast<std::size_t>(rank)];
      if (rank == 2) heartbeat->end();
      heartbeat.reset();
      REQUIRE(comes_true(all_know));
    }
  } while (std::ranges::next_permutation(order).found);
  CHECK(losses == 0);
}

TEST_CASE("rank 0 hears the calls of all ranks, the others that of rank 0") {
  LocalRanks ranks(3);
  std::vector<std::unique_ptr<Heartbeat>> heartbeats(3);
  on_all(ranks, [&](Communicator& own) {
    heartbeats[static_cast<std::size_t>(own.rank())] =
        std::make_unique<Heartbeat>(own, true, 400ms, [](const std::string&) {});
  });
  const auto becomes = [&](std::size_t rank, const std::string& calls) {
    return comes_true([&] { return heartbeats[rank]->other_states() == calls; });
  };
  for (const auto& heartbeat : heartbeats) heartbeat->begin_call("barrier");
  heartbeats[0]->begin_call("all_gather of 48 bytes");
  CHECK(becomes(2, "rank 0 last called all_gather of 48 bytes (call 2)"));
  heartbeats[2]->begin_call("all_gather of 48 bytes");
  CHECK(becomes(0, "rank 1 last called barrier (call 1)"));
  CHECK(becomes(1, "rank 0 last called all_gather of 48 bytes (call 2)"));
  CHECK(heartbeats[2]->other_states().empty());
  heartbeats[2]->begin_call("all_gather of 49 bytes");
  CHECK(becomes(0, "rank 1 last called barrier (call 1); rank 2 last called all_gather of 49 bytes (call 3)"));
  heartbeats[2].reset();  // what it did stays known
  CHECK(comes_true([&] { return heartbeats[0]->connections() == 1; }));
  CHECK(becomes(0, "rank 1 last called barrier (call 1); rank 2 last called all_gather of 49 bytes (call 3)"));
}

TEST_CASE("ranks that were all stopped for longer than the timeout continue") {
  constexpr auto kTimeout = 500ms;
  Signal connected, woken;
  const pid_t process = fork();
  REQUIRE(process >= 0);
  if (process == 0) {
    std::atomic<int> losses = 0;
    LocalRanks ranks(2);
    std::unique_ptr<Heartbeat> heartbeats[2];
    on_all(ranks, [&](Communicator& own) {
      heartbeats[own.rank()] = std::make_unique<Heartbeat>(own, true, kTimeout, [&](const std::string&) { ++losses; });
    });
    const auto all_know = [&] { return heartbeats[0]->connections() == 1 && heartbeats[1]->connections() == 1; };
    if (!comes_true(all_know) || !connected.send() || !woken.wait()) _exit(100);
    std::this_thread::sleep_for(kTimeout / 2);  // both are awake, and would report each other at once
    _exit(losses + (all_know() ? 0 : 10));
  }
  CHECK(connected.wait());
  int status = -1;
  kill(process, SIGSTOP);
  waitpid(process, &status, WUNTRACED);
  REQUIRE(WIFSTOPPED(status));
  std::this_thread::sleep_for(2 * kTimeout);
  kill(process, SIGCONT);
  CHECK(woken.send());
  waitpid(process, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

}  // namespace braid::testing
