#include "tests/api/misuse.h"

#include <doctest/doctest.h>

#include "core/base/error.h"

namespace braid::testing {

namespace {

void check_misuse(const Misuse& misuse) {
  CAPTURE(misuse.what);
  std::string message = "nothing was thrown";
  try {
    misuse.make();
  } catch (const Error& error) {
    message = error.what();
  }
  CAPTURE(message);
  CHECK(message.find(misuse.says) != std::string::npos);
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
