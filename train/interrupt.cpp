#include "train/interrupt.h"

#include <atomic>
#include <csignal>

namespace braid {

namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers may use lock-free atomics only");
struct sigaction previous_action;

void on_interrupt(int) { interrupted = true; }

}  // namespace

InterruptGuard::InterruptGuard() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  // Also where SIGINT was ignored so far: scripts start background jobs so, and then stop them with kill -INT.
  sigaction(SIGINT, &action, &previous_action);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_action, nullptr);
  interrupted = false;
}

bool InterruptGuard::requested() const { return interrupted; }

}  // namespace braid
