#include "core/device/cpu/thread_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace braid;
using Order = LoopOrder;
using cpu::ThreadPool;

namespace {

constexpr int kThreads = 4;

ThreadPool& pool() {
  ThreadPool::instance().reserve(kThreads);
  return ThreadPool::instance();
}

}  // namespace

TEST_CASE("a loop runs every piece once, for any number of threads and pieces") {
  for (const int width : {1, 2, 3, kThreads, 100}) {
    for (const std::int64_t pieces : {0, 1, 2, 3, 7, 64, 1000}) {
      for (const Order order : {Order::forward, Order::backward}) {
        CAPTURE(width);
        CAPTURE(pieces);
        std::vector<int> taken(static_cast<std::size_t>(pieces));  // not atomic: a piece taken twice is a race
        pool().run(width, pieces, order, [&](std::int64_t piece, int) { ++taken[static_cast<std::size_t>(piece)]; });
        CHECK(std::ranges::count(taken, 1) == pieces);
      }
    }
  }
}

TEST_CASE("a loop sees the writes of the previous loop") {
  constexpr std::int64_t kPieces = 50;
  std::vector<std::int64_t> values(kPieces, 0);
  for (int round = 0; round < 2000; ++round) {
    pool().run(kThreads, kPieces, Order::forward, [&](std::int64_t piece, int) {
      // Reads what another thread wrote in the round before.
      values[static_cast<std::size_t>(piece)] += 1;
    });
    std::ranges::rotate(values, values.begin() + 1);
  }
  CHECK(std::ranges::count(values, 2000) == kPieces);
}

TEST_CASE("no two threads of a loop are the same member at a time") {
  for (int round = 0; round < 200; ++round) {
    std::array<std::atomic<int>, kThreads> inside{};
    std::atomic<bool> twice = false;
    pool().run(kThreads, 100, Order::forward, [&](std::int64_t, int member) {
      auto& count = inside.at(static_cast<std::size_t>(member));
      if (count.fetch_add(1) != 0) twice = true;
      count.fetch_sub(1);
    });
    CHECK(!twice);
  }
}

TEST_CASE("several threads work on one loop") {
  std::latch all(3);
  pool().run(3, 3, Order::forward, [&](std::int64_t, int) { all.arrive_and_wait(); });  // hangs unless three come
  CHECK(all.try_wait());
}

TEST_CASE("a loop does not wait for helpers that are busy elsewhere") {
  std::latch busy(kThreads), done(1);
  std::thread other([&] {
    pool().run(kThreads, kThreads, Order::forward, [&](std::int64_t, int) {
      busy.count_down();
      done.wait();
    });
  });
  busy.wait();  // now every thread of the pool is held
  int taken = 0;
  pool().run(kThreads, 100, Order::forward, [&](std::int64_t, int) { ++taken; });
  CHECK(taken == 100);
  done.count_down();
  other.join();
}

TEST_CASE("many threads may have loops at the same time") {
  std::vector<std::thread> callers;
  std::array<std::int64_t, 6> sums{};
  for (std::size_t i = 0; i < sums.size(); ++i) {
    callers.emplace_back([&, i] {
      for (int round = 0; round < 300; ++round) {
        std::array<std::int64_t, 20> parts{};
        pool().run(1 + static_cast<int>(i), 20, Order::forward,
                   [&](std::int64_t piece, int) { parts[static_cast<std::size_t>(piece)] = piece + 1; });
        for (const std::int64_t part : parts) sums[i] += part;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::int64_t sum : sums) CHECK(sum == 300 * 210);
}

TEST_CASE("a loop within a piece of another loop is complete") {
  std::atomic<int> taken = 0;
  pool().run(kThreads, 8, Order::forward,
             [&](std::int64_t, int) { pool().run(kThreads, 8, Order::forward, [&](std::int64_t, int) { ++taken; }); });
  CHECK(taken == 64);
}

TEST_CASE("an exception in a piece reaches the thread that started the loop, and the pool stays usable") {
  for (std::int64_t bad = 0; bad < 20; ++bad) {
    CHECK_THROWS_WITH_AS(pool().run(kThreads, 20, Order::forward,
                                    [&](std::int64_t piece, int) {
                                      if (piece == bad) throw std::runtime_error("bad piece");
                                    }),
                         "bad piece", std::runtime_error);
  }
  int taken = 0;
  pool().run(1, 3, Order::forward, [&](std::int64_t, int) { ++taken; });
  CHECK(taken == 3);
}

TEST_CASE("a thread takes its pieces backward if asked to") {
  std::vector<std::int64_t> order;
  pool().run(1, 4, Order::backward, [&](std::int64_t piece, int) { order.push_back(piece); });
  CHECK(order == std::vector<std::int64_t>{3, 2, 1, 0});
}
