// Ranks that miss each other. Those that die or hang are processes, which talk through a pipe until they are connected.

#include "core/heartbeat.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>

#include "core/local/local_ranks.h"

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
  void broadcast(void* data, std::int64_t bytes, int, const LaunchContext&) override {
    const auto count = static_cast<std::size_t>(bytes);
    if ((rank_ == 0 ? write(ends_[1], data, count) : read(ends_[0], data, count)) != bytes) std::terminate();
  }
  void all_reduce(void*, std::int64_t, DType, const LaunchContext&) override { std::terminate(); }
  void reduce_scatter(const void*, void*, std::int64_t, DType, const LaunchContext&) override { std::terminate(); }
  void all_gather(const void*, void*, std::int64_t, const LaunchContext&) override { std::terminate(); }
  void all_to_all(const void*, void*, std::int64_t, const LaunchContext&) override { std::terminate(); }
  void barrier() override { std::terminate(); }
  void abort(const std::string&) override { std::terminate(); }

 private:
  int ends_[2] = {-1, -1}, rank_ = 0;
};

enum class Fate { dies, hangs, leaves };

/// What this process, the other rank of two, hears of a process that is connected for a second and then meets its fate.
std::string loss_of(int rank, Fate fate, std::chrono::nanoseconds timeout, std::chrono::nanoseconds patience) {
  Pipe ranks;
  const pid_t process = fork();
  REQUIRE(process >= 0);
  ranks.join(process == 0 ? rank : 1 - rank);
  if (process == 0) {
    {
      const Heartbeat heartbeat(ranks, true, timeout, [](const std::string&) {});
      std::this_thread::sleep_for(1s);
      if (fate == Fate::dies) _exit(0);
      if (fate == Fate::hangs) raise(SIGSTOP);
    }
    _exit(0);
  }
  std::promise<std::string> lost;
  std::string reason;
  {
    const Heartbeat heartbeat(ranks, true, timeout, [&](const std::string& why) { lost.set_value(why); });
    auto future = lost.get_future();
    if (future.wait_for(patience) == std::future_status::ready) reason = future.get();
  }
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  return reason;
}

}  // namespace

TEST_CASE("a rank that dies or hangs is missed, and one that says goodbye is not") {
  for (const int rank : {0, 1}) {
    CHECK(loss_of(rank, Fate::dies, 60s, 60s) == message("rank ", rank, " has died"));
    CHECK(loss_of(rank, Fate::hangs, 2s, 60s) == message("rank ", rank, " has given no sign of life for 2 s"));
    CHECK(loss_of(rank, Fate::leaves, 60s, 2s).empty());
  }
}

TEST_CASE("four ranks that live miss nobody, in whatever order they end") {
  LocalRanks ranks(4);
  std::vector<std::thread> threads;
  std::atomic<int> losses = 0;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      Heartbeat heartbeat(ranks.of(rank), true, 60s, [&](const std::string&) { ++losses; });
      std::this_thread::sleep_for(300ms + 100ms * (rank * 3 % 4));
      if (rank == 2) heartbeat.end();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(losses == 0);
}

TEST_CASE("ranks that were all stopped for longer than the timeout go on") {
  const pid_t process = fork();
  REQUIRE(process >= 0);
  if (process == 0) {
    std::atomic<int> losses = 0;
    LocalRanks ranks(2);
    const auto live = [&](int rank) {
      const Heartbeat heartbeat(ranks.of(rank), true, 1s, [&](const std::string&) { ++losses; });
      for (int i = 0; i < 40; ++i) std::this_thread::sleep_for(100ms);
    };
    std::thread other([&] { live(1); });
    live(0);
    other.join();
    _exit(losses);
  }
  std::this_thread::sleep_for(1s);
  kill(process, SIGSTOP);
  std::this_thread::sleep_for(3s);
  kill(process, SIGCONT);
  int status = -1;
  waitpid(process, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

}  // namespace braid::testing
