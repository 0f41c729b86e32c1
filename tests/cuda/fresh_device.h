#pragma once

#include <doctest/doctest.h>

#include "tests/cuda/recording/recording.h"

namespace braid::testing {

/// Nothing may be left on the recorded device, and the program must have made no mistake.
inline void check_tidy() {
  CHECK(recording::mistakes() == std::vector<std::string>{});
  CHECK(recording::alive() == recording::Alive{});
}

/// A new recorded device, tidy at the end.
struct FreshDevice {
  FreshDevice() { recording::reset(); }
  ~FreshDevice() { check_tidy(); }
  FreshDevice(const FreshDevice&) = delete;
  FreshDevice& operator=(const FreshDevice&) = delete;
};

}  // namespace braid::testing
