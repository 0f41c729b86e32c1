#pragma once
// What a training leaves behind, compared bit for bit.

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "runtime/session.h"

namespace braid::testing {

struct Trained {
  std::vector<double> losses;
  std::vector<Array> tensors;  // weights, running statistics and all else that steps change
};

inline void check_equal(const Trained& a, const Trained& b) {
  CHECK(a.losses == b.losses);
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    CAPTURE(i);
    REQUIRE(a.tensors[i].bytes() == b.tensors[i].bytes());
    CHECK(std::memcmp(a.tensors[i].data(), b.tensors[i].data(), a.tensors[i].bytes()) == 0);
  }
}

inline std::vector<Array> tensors_of(Session& session) {
  std::vector<Array> tensors;
  for (const Parameter* parameter : session.parameters()) tensors.push_back(session.read(*parameter));
  return tensors;
}

}  // namespace braid::testing
