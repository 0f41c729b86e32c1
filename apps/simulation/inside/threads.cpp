// Threads, locks, waiting and the clock.

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <ctime>
#include <span>

#include "apps/simulation/inside/inside.h"

namespace braid::simulation {

World* world = nullptr;
int own_rank = 0;
thread_local Thread* own_thread = nullptr;

namespace {

constexpr Time kCall = 100;                       // what a call takes
constexpr Time kBoot = 1'000 * kSecond;           // CLOCK_MONOTONIC when the cluster starts
constexpr Time kEpoch = 1'800'000'000 * kSecond;  // CLOCK_REALTIME then

Thread* main_thread() { return &world->threads[static_cast<std::size_t>(own_rank)]; }

/// Resumes another thread. Does not return if this process has to end.
void resume_other(Thread* thread) {
  const bool ends = thread == nullptr || rank_state(own_rank).has_ended;  // once resumed, the other may change it
  resume(*world, thread);
  if (!ends) return;
  kill(getpid(), SIGKILL);
  while (true) pause();
}

/// Lets another thread run, and returns when this one is chosen again.
void suspend() {
  const std::uint32_t count = own_thread->resumed + 1;
  Thread* const next = choose(*world);
  if (next != own_thread || rank_state(own_rank).has_ended) {
    resume_other(next);
    await_resume(*own_thread, count);
  }
  std::uint32_t& signals = rank_state(own_rank).signals;
  if (signals == 0 || own_thread != main_thread()) return;
  const std::uint32_t raised = signals;
  signals = 0;
  for (int signal = 1; signal < 32; ++signal) {
    if ((raised >> signal & 1) != 0) raise(signal);
  }
}

/// A thread that was created by a process, for those that join it.
struct Started {
  pthread_t id;
  Thread* thread;  // null once it has ended
  bool is_used;
  void* (*work)(void*);
  void* argument;
};
std::array<Started, 1024> started;
pthread_key_t end_of_thread;

/// Runs when a thread ends, after the destructors of its variables.
void end_thread(void* record) {
  static_cast<Started*>(record)->thread = nullptr;
  notify_all(record);
  own_thread->state = Thread::State::none;
  own_thread = nullptr;
  resume_other(choose(*world));
}

void* run_thread(void* record) {
  auto* const own_record = static_cast<Started*>(record);
  own_thread = own_record->thread;
  await_resume(*own_thread, 1);
  pthread_setspecific(end_of_thread, record);
  return own_record->work(own_record->argument);
}

__attribute__((constructor(101))) void enter() {
  const char* const place = std::getenv("BRAID_SIMULATION");  // "descriptor rank"
  if (place == nullptr) return;
  char* rest = nullptr;
  const int descriptor = static_cast<int>(std::strtol(place, &rest, 10));
  own_rank = static_cast<int>(std::strtol(rest, nullptr, 10));
  world = &map_world(descriptor);
  pthread_key_create(&end_of_thread, end_thread);
  own_thread = main_thread();
  await_resume(*own_thread, 1);
}

Time to_time(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }
timespec to_timespec(Time time) { return {time / kSecond, time % kSecond}; }
Time start_of(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? kEpoch : kBoot; }

int unlock(pthread_mutex_t* mutex) {
  const int error = BRAID_ORIGINAL(pthread_mutex_unlock)(mutex);
  if (is_inside()) notify(*world, key_of(mutex), own_rank, 1);
  return error;
}

/// Nothing happens between the release of the mutex and the wait.
int wait_on(pthread_cond_t* condition, pthread_mutex_t* mutex, Time until) {
  unlock(mutex);
  const bool in_time = wait_for(condition, until);
  pthread_mutex_lock(mutex);
  return in_time ? 0 : ETIMEDOUT;
}

long futex(std::uint32_t* address, int operation, std::uint32_t value, const timespec* time) {
  const int command = operation & FUTEX_CMD_MASK;
  if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET) {
    notify(*world, key_of(address), own_rank, static_cast<int>(value));
    may_switch();
    return 0;
  }
  may_switch();
  if (__atomic_load_n(address, __ATOMIC_ACQUIRE) != value) return errno = EAGAIN, -1;
  Time until = kNever;
  if (time != nullptr && command == FUTEX_WAIT) until = world->now + to_time(*time);
  if (time != nullptr && command != FUTEX_WAIT) {
    until = to_time(*time) - ((operation & FUTEX_CLOCK_REALTIME) != 0 ? kEpoch : kBoot);
  }
  if (wait_for(address, until)) return 0;
  return errno = ETIMEDOUT, -1;
}

}  // namespace

bool wait_for(const void* key, Time until) {
  own_thread->state = Thread::State::waiting;
  own_thread->key = key_of(key);
  own_thread->until = until;
  suspend();
  return own_thread->is_notified;
}

void may_switch() {
  world->now += kCall;
  if (rank_state(own_rank).slow_until > world->now) {
    wait_for(&own_thread, world->now + world->random.next() % (100 * kMicrosecond));
  } else if (world->random.next() % world->switch_rate == 0) {
    suspend();
  }
}

}  // namespace braid::simulation

using namespace braid::simulation;

extern "C" {

int pthread_create(pthread_t* id, const pthread_attr_t* attributes, void* (*work)(void*), void* argument) noexcept {
  if (!is_inside()) return BRAID_ORIGINAL(pthread_create)(id, attributes, work, argument);
  for (Started& record : started) {
    if (record.is_used) continue;
    for (Thread& thread : std::span(world->threads).subspan(kMostRanks)) {
      if (thread.state != Thread::State::none || (thread.was_used && thread.rank != own_rank)) continue;
      record = {0, &thread, true, work, argument};
      thread = {Thread::State::ready, true, false, own_rank, 0, 0, 0};
      const int error = BRAID_ORIGINAL(pthread_create)(&record.id, attributes, run_thread, &record);
      *id = record.id;
      if (error != 0) record.is_used = false, thread.state = Thread::State::none;
      may_switch();
      return error;
    }
  }
  return EAGAIN;
}

int pthread_join(pthread_t id, void** result) {
  if (is_inside()) {
    for (Started& record : started) {
      if (!record.is_used || record.id != id) continue;
      while (record.thread != nullptr) wait_for(&record);
      record.is_used = false;
    }
  }
  return BRAID_ORIGINAL(pthread_join)(id, result);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (!is_inside()) return BRAID_ORIGINAL(pthread_mutex_lock)(mutex);
  may_switch();
  int error = 0;
  while ((error = pthread_mutex_trylock(mutex)) == EBUSY) wait_for(mutex);
  return error;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  const int error = unlock(mutex);
  if (is_inside()) may_switch();
  return error;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return is_inside() ? wait_on(condition, mutex, kNever) : BRAID_ORIGINAL(pthread_cond_wait)(condition, mutex);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* time) {
  return is_inside() ? wait_on(condition, mutex, to_time(*time) - kEpoch)
                     : BRAID_ORIGINAL(pthread_cond_timedwait)(condition, mutex, time);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* time) {
  return is_inside() ? wait_on(condition, mutex, to_time(*time) - start_of(clock))
                     : BRAID_ORIGINAL(pthread_cond_clockwait)(condition, mutex, clock, time);
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (!is_inside()) return BRAID_ORIGINAL(pthread_cond_signal)(condition);
  notify(*world, key_of(condition), own_rank, 1);
  may_switch();
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (!is_inside()) return BRAID_ORIGINAL(pthread_cond_broadcast)(condition);
  notify_all(condition);
  may_switch();
  return 0;
}

int pthread_cond_destroy(pthread_cond_t* condition) noexcept {
  return is_inside() ? 0 : BRAID_ORIGINAL(pthread_cond_destroy)(condition);
}

int sched_yield() noexcept {
  if (!is_inside()) return BRAID_ORIGINAL(sched_yield)();
  wait_for(&own_thread, world->now + kMicrosecond);
  return 0;
}

int nanosleep(const timespec* time, timespec* left) {
  if (!is_inside()) return BRAID_ORIGINAL(nanosleep)(time, left);
  wait_for(&own_thread, world->now + to_time(*time));
  return 0;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (!is_inside()) return BRAID_ORIGINAL(clock_gettime)(clock, time);
  world->now += kCall;
  *time = to_timespec(world->now + start_of(clock));
  return 0;
}

time_t time(time_t* seconds) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds != nullptr) *seconds = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

/// std::atomic and the standard library wait by it.
long syscall(long number, ...) noexcept {
  std::va_list list;
  va_start(list, number);
  std::array<long, 6> arguments;
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  const auto [a, b, c, d, e, f] = arguments;
  const bool is_simulated = number == SYS_futex && is_inside() && !contains(*world, static_cast<std::uintptr_t>(a));
  if (!is_simulated) return BRAID_ORIGINAL(syscall)(number, a, b, c, d, e, f);
  return futex(reinterpret_cast<std::uint32_t*>(a), static_cast<int>(b), static_cast<std::uint32_t>(c),
               reinterpret_cast<const timespec*>(d));
}

}  // extern "C"
