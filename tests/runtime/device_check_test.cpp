#include "runtime/device_check.h"

#include <doctest/doctest.h>

namespace braid {
namespace {

TEST_CASE("the CPU agrees with itself") {
  CHECK(device_fault({}) == "");
  CHECK(find_device("cpu").device == Device{});
  CHECK(find_device("cpu").report == "");
}

}  // namespace
}  // namespace braid
