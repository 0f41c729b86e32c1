#pragma once
// Ctrl-C as a wish, not an axe: training ends after the current step and saves what it has.

namespace braid {

/// While it lives, the first SIGINT only sets a flag; a second one ends the process as usual. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  /// Restores what SIGINT did before and clears the flag.
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// Whether SIGINT has come.
  bool requested() const;
};

}  // namespace braid
