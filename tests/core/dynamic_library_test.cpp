#include "core/base/dynamic_library.h"

#include <doctest/doctest.h>

namespace braid::testing {

TEST_CASE("a library that is loaded gives functions by name, and null for others") {
  const DynamicLibrary math("libm.so.6");
  CHECK(math.problem() == "");
  REQUIRE(math.find<void>("sqrt") != nullptr);
  CHECK(math.find<double(double)>("sqrt")(9) == 3);
  CHECK(math.find<void>("no_such_function") == nullptr);
}

TEST_CASE("a library that is in neither place says why, and has no symbols") {
  const DynamicLibrary none("libnone.so.1", "/nowhere");
  CHECK(none.problem().starts_with("libnone.so.1 cannot be loaded ("));
  CHECK(none.problem().find("No such file") != std::string::npos);
  CHECK(none.find<void>("sqrt") == nullptr);
}

}  // namespace braid::testing
