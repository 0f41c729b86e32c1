// Programs that define these macros, as Qt and Apple's AssertMacros.h do, can include Braid.

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#define emit
#define slots
#define signals public
#define foreach(variable, container) for (variable : container)
#define forever for (;;)
#define check(assertion) static_assert(false)
#define verify(assertion) static_assert(false)
#define require(assertion, label) static_assert(false)

#include "braid/braid.h"
#include "braid/op.h"

TEST_CASE("the headers use no name that is a macro elsewhere") {
  braid::Session session({.device = "cpu", .streams = 1});
  CHECK(session.options().streams == 1);
}
