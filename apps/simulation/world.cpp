#include "apps/simulation/world.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>

namespace braid::simulation {

namespace {

// An address that systems do not choose themselves.
void* const kAddress = reinterpret_cast<void*>(0x2000'0000'0000);
constexpr std::size_t kBytes = std::size_t{8} << 30;  // pages are there once they are used

bool is_silent(const World& world, const Thread& thread) {
  return world.rank[static_cast<std::size_t>(thread.rank)].silent_until > world.now;
}

/// Ends a process; this one itself only once it has resumed another.
void kill_rank(World& world, int rank) {
  Rank& its = world.rank[static_cast<std::size_t>(rank)];
  if (its.has_ended) return;
  its.was_killed = true;
  end_rank(world, rank);
  if (its.process > 0 && its.process != getpid()) kill(its.process, SIGKILL);
}

void kill_all(World& world) {
  for (int rank = 0; rank < world.ranks; ++rank) kill_rank(world, rank);
}

void begin(World& world, const Fault& fault) {
  Rank& rank = world.rank[static_cast<std::size_t>(fault.rank)];
  const Time end = world.now + fault.lasts;
  switch (fault.kind) {
    case Fault::Kind::kill: return kill_rank(world, fault.rank);
    case Fault::Kind::silence: rank.silent_until = std::max(rank.silent_until, end); return;
    case Fault::Kind::slow: rank.slow_until = std::max(rank.slow_until, end); return;
    case Fault::Kind::cut: rank.cut_until = std::max(rank.cut_until, end); return;
    case Fault::Kind::full: world.full_until = std::max(world.full_until, end); return;
    case Fault::Kind::crash: return kill_all(world);
    case Fault::Kind::terminate: rank.signals |= 1U << SIGTERM; return;
    case Fault::Kind::save: rank.signals |= 1U << SIGUSR1; return;
    case Fault::Kind::stop:
      for (Rank& each : world.rank) each.signals |= 1U << SIGUSR2;
      return;
  }
}

bool has_threads(const World& world) {
  return std::ranges::any_of(world.threads, [](const Thread& one) { return one.state != Thread::State::none; });
}

/// The time of the next event that no thread causes.
Time next_event(const World& world) {
  Time next = world.killed_at;
  if (world.faults_begun < world.fault_count) {
    next = std::min(next, world.faults[static_cast<std::size_t>(world.faults_begun)].time);
  }
  for (const Thread& thread : world.threads) {
    if (thread.state == Thread::State::none) continue;
    const Time silent_until = world.rank[static_cast<std::size_t>(thread.rank)].silent_until;
    if (thread.state == Thread::State::waiting && thread.until == kNever) continue;
    next = std::min(next, std::max(silent_until, thread.state == Thread::State::waiting ? thread.until : 0));
  }
  return next;
}

}  // namespace

int make_world() {
  const int descriptor = memfd_create("braid simulate", 0);
  if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(kBytes)) == 0) return descriptor;
  return -1;
}

World& map_world(int descriptor) {
  void* const at =
      mmap(kAddress, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, descriptor, 0);
  if (at != kAddress) std::abort();
  return *static_cast<World*>(at);
}

void unmap_world(World& world, int descriptor) {
  munmap(&world, kBytes);
  close(descriptor);
}

bool contains(const World& world, std::uintptr_t address) {
  return address - reinterpret_cast<std::uintptr_t>(&world) < kBytes;
}

Thread* choose(World& world) {
  std::array<Thread*, kMostThreads> candidates;
  while (true) {
    while (world.faults_begun < world.fault_count &&
           world.faults[static_cast<std::size_t>(world.faults_begun)].time <= world.now) {
      begin(world, world.faults[static_cast<std::size_t>(world.faults_begun++)]);
    }
    if (world.killed_at <= world.now) kill_all(world);
    if (!has_threads(world)) return nullptr;
    std::size_t count = 0;
    for (Thread& thread : world.threads) {
      const bool could =
          thread.state == Thread::State::ready || (thread.state == Thread::State::waiting && thread.until <= world.now);
      if (could && !is_silent(world, thread)) candidates[count++] = &thread;
    }
    if (count > 0) {
      Thread& thread = *candidates[world.random.next() % count];
      const auto number = static_cast<std::uint64_t>(&thread - world.threads.data());
      if (thread.state == Thread::State::waiting) thread.is_notified = false;
      thread.state = Thread::State::ready;
      world.hash = (world.hash ^ number ^ static_cast<std::uint64_t>(world.now) << 8) * 0x9E3779B97F4A7C15;
      return &thread;
    }
    const Time next = next_event(world);
    if (next == kNever) return nullptr;
    world.now = std::max(world.now, next);
  }
}

void resume(World& world, Thread* thread) {
  world.current = thread;
  if (thread == nullptr) {
    world.is_stuck = has_threads(world);
    return kill_all(world);
  }
  __atomic_add_fetch(&thread->resumed, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &thread->resumed, FUTEX_WAKE, 1, nullptr);
}

void await_resume(const Thread& thread, std::uint32_t count) {
  while (__atomic_load_n(&thread.resumed, __ATOMIC_ACQUIRE) != count)
    syscall(SYS_futex, &thread.resumed, FUTEX_WAIT, count - 1, nullptr);
}

void close_socket(Socket& socket) {
  if (socket.peer != nullptr) {
    socket.peer->is_over = true;
    socket.peer->peer = nullptr;
  }
  socket.kind = Socket::Kind::none;
}

void end_rank(World& world, int rank) {
  world.rank[static_cast<std::size_t>(rank)].has_ended = true;
  for (Thread& thread : world.threads) {
    if (thread.state != Thread::State::none && thread.rank == rank) thread.state = Thread::State::none;
  }
  for (Socket& socket : world.sockets) {
    if (socket.kind != Socket::Kind::none && socket.rank == rank) close_socket(socket);
  }
  notify(world, reinterpret_cast<std::uintptr_t>(&world.sockets), rank, INT_MAX);
}

void notify(World& world, std::uintptr_t key, int rank, int most) {
  // A key of the world means the same to all ranks, an address of a process to this one only.
  const bool is_shared = contains(world, key);
  const auto waits = [&](const Thread& thread) {
    return thread.state == Thread::State::waiting && thread.key == key && (is_shared || thread.rank == rank);
  };
  auto count = std::ranges::count_if(world.threads, waits);
  for (Thread& thread : world.threads) {
    if (count == 0 || most == 0) return;
    if (!waits(thread)) continue;
    if (world.random.next() % static_cast<std::uint64_t>(count--) >= static_cast<std::uint64_t>(most)) continue;
    thread.state = Thread::State::ready;
    thread.is_notified = true;
    --most;
  }
}

}  // namespace braid::simulation
