#pragma once
// Treats signals as requests. After Ctrl-C, kill, SIGUSR2 and a closed terminal, training ends after the current step
// and saves its state. After SIGUSR1, it saves its state and continues.

#include <array>
#include <csignal>

namespace braid {

/// During its lifetime, the first SIGINT, SIGTERM, SIGHUP or SIGUSR2 only sets a flag. A second SIGINT or SIGTERM ends
/// the process as usual. SIGTERM and SIGHUP stay ignored if they were, as under nohup. Only one guard may exist at a
/// time.
class InterruptGuard {
 public:
  InterruptGuard();
  /// Restores the previous handlers and clears the flag.
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// Whether one of the signals has arrived.
  bool requested() const { return signal() != 0; }
  /// The first that arrived, for example SIGINT; 0 if none did.
  int signal() const;
  /// Whether SIGUSR1 has arrived since the last call.
  bool take_save_request() const;

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  std::array<struct sigaction, kSignals.size()> previous_;
};

}  // namespace braid
