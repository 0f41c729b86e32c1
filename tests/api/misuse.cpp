#include "tests/api/misuse.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace braid::testing {

namespace {

void check_misuse(const Misuse& misuse) {
  CAPTURE(misuse.what);
  const std::string message = error_of<Error>(misuse.make);
  CAPTURE(message);
  CHECK(contains(message, misuse.says));
}

}  // namespace

void check_misuses(std::initializer_list<Misuse> table) {
  for (const Misuse& misuse : table) check_misuse(misuse);
}

void check_misuses_in_steps(Session& session, std::optional<Step>& step, std::initializer_list<Misuse> table) {
  for (const Misuse& misuse : table) {
    step.reset();
    step.emplace(session.step());
    check_misuse(misuse);
  }
  step.reset();
}

}  // namespace braid::testing
