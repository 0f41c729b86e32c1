#include "ops/cuda/bias.h"

#include <doctest/doctest.h>

#include <vector>

namespace braid::testing {

TEST_CASE("a bias is added to every row, in whatever precision") {
  constexpr std::int64_t kRows = 301, kChannels = 7;
  const auto check = [](auto number, DType dtype) {
    using T = decltype(number);
    std::vector<T> y, bias;
    for (int i = 0; i < kRows * kChannels; ++i) y.push_back(T(static_cast<float>(i % 64)));
    for (int i = 0; i < kChannels; ++i) bias.push_back(T(static_cast<float>(i) * 0.5f));
    cuda::add_bias({}, y.data(), bias.data(), kRows, kChannels, dtype);
    for (int i = 0; i < kRows * kChannels; ++i) {
      CHECK(static_cast<float>(y[static_cast<std::size_t>(i)]) ==
            static_cast<float>(i % 64) + static_cast<float>(i % kChannels) * 0.5f);
    }
  };
  check(float{}, DType::f32);
  check(double{}, DType::f64);
  check(Half{}, DType::f16);
  check(BFloat16{}, DType::bf16);
}

}  // namespace braid::testing
