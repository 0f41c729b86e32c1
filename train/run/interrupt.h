#pragma once
// Treats Ctrl-C, kill and a closed terminal as requests: training ends after the current step and saves its state.

#include <array>
#include <csignal>

namespace braid {

/// During its lifetime, the first SIGINT, SIGTERM or SIGHUP only sets a flag. A second SIGINT or SIGTERM ends the
/// process as usual. SIGTERM and SIGHUP stay ignored if they were, as under nohup. Only one guard may exist at a time.
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

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> previous_;
};

}  // namespace braid
