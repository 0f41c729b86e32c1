#include "train/run/interrupt.h"

#include <doctest/doctest.h>

using namespace braid;

namespace {

void own_handler(int) {}

}  // namespace

TEST_CASE("the first SIGINT, SIGTERM or SIGHUP is a request, and the guard restores the previous handlers") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    const auto before = std::signal(signal, own_handler);
    {
      const InterruptGuard guard;
      CHECK_FALSE(guard.requested());
      std::raise(signal);
      CHECK(guard.requested());
      CHECK(guard.signal() == signal);
    }
    CHECK((std::signal(signal, before) == own_handler));
    const InterruptGuard guard;
    CHECK_FALSE(guard.requested());
  }
}

TEST_CASE("a second SIGINT or SIGTERM ends the process, a second SIGHUP does not: a closing terminal sends several") {
  const InterruptGuard guard;
  const auto after_the_first = [](int signal) {
    std::raise(signal);
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    return action.sa_handler;
  };
  CHECK((after_the_first(SIGINT) == SIG_DFL));
  CHECK((after_the_first(SIGTERM) == SIG_DFL));
  CHECK((after_the_first(SIGHUP) != SIG_DFL));
  std::raise(SIGHUP);
  CHECK(guard.signal() == SIGINT);  // the first
}

TEST_CASE("SIGINT is a request even if it was ignored, as in the background jobs of a script") {
  const auto before = std::signal(SIGINT, SIG_IGN);
  {
    const InterruptGuard guard;
    std::raise(SIGINT);
    CHECK(guard.requested());
  }
  CHECK((std::signal(SIGINT, before) == SIG_IGN));
}

TEST_CASE("SIGHUP and SIGTERM stay ignored if they were, as under nohup") {
  for (const int signal : {SIGHUP, SIGTERM}) {
    CAPTURE(signal);
    const auto before = std::signal(signal, SIG_IGN);
    {
      const InterruptGuard guard;
      std::raise(signal);
      CHECK_FALSE(guard.requested());
    }
    CHECK((std::signal(signal, before) == SIG_IGN));
  }
}
