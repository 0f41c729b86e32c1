#include "tests/api/misuse.h"

#include <doctest/doctest.h>

#include "core/base/error.h"

namespace braid::testing {

void check_misuses(std::initializer_list<Misuse> table) {
  for (const Misuse& misuse : table) {
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
}

}  // namespace braid::testing
