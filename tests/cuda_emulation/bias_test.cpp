#include "ops/matmul/cuda/bias.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace braid::testing {

TEST_CASE("a bias is added to every row and the sum activated, in whatever precision") {
  constexpr std::int64_t kRows = 301;
  const auto check_one = [](auto number, DType dtype, bool has_bias, Activation activation, int channels) {
    using T = decltype(number);
    std::vector<T> y, bias;
    for (int i = 0; i < kRows * channels; ++i) y.push_back(T(static_cast<float>(i % 64 - 30)));
    for (int i = 0; i < channels; ++i) bias.push_back(T(static_cast<float>(i) * 0.5f));
    cuda::add_bias({}, 1, y.data(), has_bias ? bias.data() : nullptr, activation, kRows, channels, dtype);
    for (int i = 0; i < kRows * channels; ++i) {
      float expected = static_cast<float>(i % 64 - 30);
      if (has_bias) expected += static_cast<float>(i % channels) * 0.5f;
      if (activation != Activation::none) expected = std::max(expected, 0.0f);
      if (activation == Activation::relu6) expected = std::min(expected, 6.0f);
      CHECK(static_cast<float>(y[static_cast<std::size_t>(i)]) == expected);
    }
  };
  const auto check = [&](auto number, DType dtype) {
    for (const int channels : {7, 16}) {
      check_one(number, dtype, true, Activation::none, channels);
      check_one(number, dtype, true, Activation::relu, channels);
      check_one(number, dtype, false, Activation::relu, channels);
      check_one(number, dtype, true, Activation::relu6, channels);
    }
  };
  check(float{}, DType::f32);
  check(double{}, DType::f64);
  check(Half{}, DType::f16);
  check(BFloat16{}, DType::bf16);
}

}  // namespace braid::testing
