#include "train/run/interrupt.h"

#include <atomic>

namespace braid {

namespace {

std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "signal handlers may use lock-free atomics only");

std::atomic<bool> save_requested = false;

/// The first signal that ends training counts.
void on_signal(int signal) {
  if (signal == SIGUSR1) {
    save_requested = true;
    return;
  }
  int none = 0;
  received.compare_exchange_strong(none, signal);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    // A second SIGINT or SIGTERM is deliberate. A second SIGHUP is not: both a closing terminal and its shell send one.
    const bool ends_at_second = kSignals[i] == SIGINT || kSignals[i] == SIGTERM;
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART | (ends_at_second ? static_cast<int>(SA_RESETHAND) : 0);
    sigaction(kSignals[i], nullptr, &previous_[i]);
    // Signals are ignored on purpose, as by nohup, except SIGINT: scripts start background jobs with it ignored, and
    // then stop them with kill -INT.
    const bool ignored = previous_[i].sa_handler == SIG_IGN && kSignals[i] != SIGINT;
    if (!ignored) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
  received = 0;
  save_requested = false;
}

bool InterruptGuard::take_save_request() const { return save_requested.exchange(false); }

int InterruptGuard::signal() const { return received; }

}  // namespace braid
