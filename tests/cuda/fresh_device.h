#pragma once

#include <doctest/doctest.h>

#include "tests/cuda/recording/recording.h"

namespace braid::testing {

/// A new recorded device. When it ends, nothing may be left on it, and the program must have made no mistake.
struct FreshDevice {
  FreshDevice() { recording::reset(); }
  ~FreshDevice() {
    CHECK(recording::mistakes() == std::vector<std::string>{});
    CHECK(recording::alive() == recording::Alive{});
  }
  FreshDevice(const FreshDevice&) = delete;
  FreshDevice& operator=(const FreshDevice&) = delete;
};

}  // namespace braid::testing
