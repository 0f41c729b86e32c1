#pragma once
// Tables of mistakes: each throws an exception that says what is wrong, and has no other effect.

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>

#include "runtime/session.h"

namespace braid::testing {

struct Misuse {
  std::string what;  ///< the mistake, as "two steps are open at once"
  std::string says;  ///< part of the message
  std::function<void()> make;
};

/// Checks that every mistake throws a braid::Error with that message.
void check_misuses(std::initializer_list<Misuse> table);

/// Checks the same of mistakes that are each made in a new `step` of the session.
void check_misuses_in_steps(Session& session, std::optional<Step>& step, std::initializer_list<Misuse> table);

}  // namespace braid::testing
