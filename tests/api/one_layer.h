#pragma once
// A session with one weight, for tests of mistakes.

#include "braid/braid.h"

namespace braid::testing {

inline const Array kOnes = Array::from<float>({1, 1, 1, 1, 1, 1}, {2, 3});

struct OneLayer {
  Session session{{.device = "cpu", .streams = 1}};
  Parameter& w = session.add("w", {DType::f32, {2, 3}}, ValueKind::parameter);
  SGD sgd{{&w}, {.lr = 0.1, .momentum = 0.9}};

  Tensor loss() { return cross_entropy(linear(kOnes, w), Array::from<std::int32_t>({0, 0}, {2})); }
};

}  // namespace braid::testing
