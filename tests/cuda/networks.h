#pragma once
// Steps to run on the recorded device: kernels do nothing there, so what they compute does not matter.

#include "autograd/functions.h"
#include "runtime/session.h"
#include "tests/noise.h"

namespace braid::testing {

/// Records a random graph of ReLUs and matrix products: branches, joins, values that live long.
inline Tensor random_network(const Tensor& x, std::uint64_t seed, int nodes) {
  Generator generator(seed);
  std::vector<Tensor> tensors{x};
  const auto pick = [&] {  // rather a recent one
    const std::size_t reach = std::min<std::size_t>(tensors.size(), 6);
    return tensors[tensors.size() - 1 - generator.below(reach)];
  };
  for (int i = 0; i < nodes; ++i) {
    tensors.push_back(generator.below(3) == 0 ? relu(pick()) : linear(pick(), pick()));
  }
  return tensors.back();
}

}  // namespace braid::testing
