#pragma once
// Ctrl-C, kill and a closed terminal as requests: training ends after the current step and saves what it has.

#include <array>
#include <csignal>

namespace braid {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP is only noted. A second SIGINT or SIGTERM ends the process as
/// usual. SIGTERM and SIGHUP stay ignored if they were, as under nohup. One guard at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  /// Restores what the signals did before and forgets what has come.
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// Whether one of the signals has come.
  bool requested() const { return signal() != 0; }
  /// The first that came, as SIGINT; 0 if none did.
  int signal() const;

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> previous_;
};

}  // namespace braid
