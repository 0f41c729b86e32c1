// Fibers by ucontext, which then change places by longjmp, because swapcontext costs a system call. A thread that has
// not reached a barrier yet runs in the fiber of the previous one.

#include <cuda_runtime.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "core/device/cuda/check.h"

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace cuda_emulation {

namespace {

constexpr std::size_t kStackBytes = 64 << 10;
constexpr unsigned kWarp = 32;

enum class State { ready, at_block_barrier, at_warp_barrier, done };

struct Fiber {
  ucontext_t start;
  jmp_buf place;
  bool has_started = false;
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
};

struct Thread {
  State state = State::ready;
  std::unique_ptr<Fiber> fiber;  // while it waits
  dim3 index = {};
  // A thread may be one exchange ahead of others, which have yet to read what it gave before.
  unsigned long long given[2] = {};
  unsigned exchanges = 0;
};

Order order = Order::forward;
std::mt19937 random_bits;
const std::function<void()>* current_body = nullptr;
std::vector<Thread> threads;
std::vector<unsigned> turns;  // the threads of the block in the order in which they start
std::size_t started = 0;
unsigned current = 0;
std::unique_ptr<Fiber> running;
std::vector<std::unique_ptr<Fiber>> free_fibers;
jmp_buf scheduler;
std::exception_ptr failure;
std::vector<unsigned> grids;

std::vector<unsigned> in_order(unsigned count) {
  std::vector<unsigned> list(count);
  std::iota(list.begin(), list.end(), 0u);
  if (order == Order::backward) std::reverse(list.begin(), list.end());
  if (order == Order::shuffled) std::shuffle(list.begin(), list.end(), random_bits);
  return list;
}

void become(unsigned number) {
  current = number;
  threadIdx = threads[number].index;
}

/// Returns to the scheduler, until the fiber is entered again.
void leave(Fiber& fiber) {
  if (_setjmp(fiber.place) == 0) _longjmp(scheduler, 1);
}

void enter(Fiber& fiber) {
  if (_setjmp(scheduler) != 0) return;
  if (fiber.has_started) _longjmp(fiber.place, 1);
  fiber.has_started = true;
  setcontext(&fiber.start);
}

/// Starts one thread after another until one has to wait: then the fiber is that thread's until it ends.
void fiber_main() {
  for (;;) {
    try {
      while (started < turns.size()) {
        become(turns[started++]);
        (*current_body)();
        threads[current].state = State::done;
      }
    } catch (...) {
      failure = std::current_exception();
    }
    Fiber& fiber = *running;
    free_fibers.push_back(std::move(running));
    leave(fiber);
  }
}

std::unique_ptr<Fiber> take_fiber() {
  if (!free_fibers.empty()) {
    auto fiber = std::move(free_fibers.back());
    free_fibers.pop_back();
    return fiber;
  }
  auto fiber = std::make_unique<Fiber>();
  getcontext(&fiber->start);
  fiber->start.uc_stack.ss_sp = fiber->stack.get();
  fiber->start.uc_stack.ss_size = kStackBytes;
  fiber->start.uc_link = nullptr;
  makecontext(&fiber->start, fiber_main, 0);
  return fiber;
}

void run(std::unique_ptr<Fiber> fiber) {
  running = std::move(fiber);
  enter(*running);
  if (failure != nullptr) std::rethrow_exception(std::exchange(failure, nullptr));
}

void wait(State state) {
  Thread& thread = threads[current];
  thread.state = state;
  thread.fiber = std::move(running);
  leave(*thread.fiber);
}

/// Lets the threads [begin, end) continue if all wait at this kind of barrier.
bool release(unsigned begin, unsigned end, State barrier) {
  const auto waits = [&](const Thread& thread) { return thread.state == barrier; };
  const auto first = threads.begin() + begin, last = threads.begin() + end;
  if (!std::all_of(first, last, waits)) return false;
  std::for_each(first, last, [](Thread& thread) { thread.state = State::ready; });
  return true;
}

void run_block() {
  const unsigned count = blockDim.x * blockDim.y * blockDim.z;
  threads = std::vector<Thread>(count);
  for (unsigned i = 0; i < count; ++i) {
    threads[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
  }
  turns = in_order(count);
  started = 0;
  while (started < count) run(take_fiber());
  for (;;) {
    if (std::ranges::all_of(threads, [](const Thread& thread) { return thread.state == State::done; })) return;
    bool released = release(0, count, State::at_block_barrier);
    for (unsigned warp = 0; warp < count; warp += kWarp) {
      released = release(warp, std::min(count, warp + kWarp), State::at_warp_barrier) || released;
    }
    if (!released) throw std::logic_error("some threads wait at a barrier that others will never reach");
    for (const unsigned number : turns) {
      if (threads[number].state != State::ready) continue;
      become(number);
      run(std::move(threads[number].fiber));
    }
  }
}

}  // namespace

void set_order(Order value) { order = value; }

void run_grid(dim3 grid, dim3 block, const std::function<void()>& body) {
  const unsigned count = block.x * block.y * block.z;
  if (count == 0 || count > 1024 || block.z > 64) throw std::logic_error("a block has 1 to 1024 threads");
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) throw std::logic_error("the grid is too large");
  gridDim = grid;
  blockDim = block;
  current_body = &body;
  grids.push_back(grid.x * grid.y * grid.z);
  for (const unsigned number : in_order(grid.x * grid.y * grid.z)) {
    blockIdx = {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
    run_block();
  }
}

std::vector<unsigned> take_grids() { return std::exchange(grids, {}); }

void block_barrier() { wait(State::at_block_barrier); }
void warp_barrier() { wait(State::at_warp_barrier); }
unsigned long long exchange(unsigned long long bits, unsigned mask) {
  const unsigned place = threads[current].exchanges++ % 2;
  threads[current].given[place] = bits;
  warp_barrier();
  return threads[current ^ mask].given[place];
}

}  // namespace cuda_emulation

namespace braid::cuda {

void check_cuda(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw std::logic_error(call);
}

}  // namespace braid::cuda
