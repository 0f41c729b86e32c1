#include "core/base/dynamic_library.h"

#include <doctest/doctest.h>

namespace braid::testing {

TEST_CASE("a library that is loaded gives functions by name, and null for others") {
  const DynamicLibrary math("libm.so.6");
  CHECK(math.problem() == "");
  REQUIRE(math.find("sqrt").address != nullptr);
  double (*const root)(double) = math.find("sqrt");
  CHECK(root(9) == 3);
  CHECK(math.find("no_such_function").address == nullptr);
}

TEST_CASE("a library that is in neither place says why, and has no symbols") {
  const DynamicLibrary none("libnone.so.1", "/nowhere");
  CHECK(none.problem().starts_with("libnone.so.1 cannot be loaded ("));
  CHECK(none.problem().find("No such file") != std::string::npos);
  CHECK(none.find("sqrt").address == nullptr);
}

}  // namespace braid::testing
