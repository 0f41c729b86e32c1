#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/ops/compressed.h"

using namespace braid;
using namespace braid::testing;

namespace {

using Method = Compression::Method;

struct Compressed {
  Array message, residual, sum;
};

Compressed compress(Method method, double ratio, const std::vector<Array>& inputs, const RunOptions& options = {}) {
  const std::vector<Array> sent = run_op(ops::Compress(method, ratio), inputs, options);
  const Shape shape(inputs[1].shape().extents().subspan(1));
  const ops::Decompress decompress(method, ratio, inputs[1].dtype(), shape);
  return {sent[0], sent[1], run_op(decompress, {sent[0]}, options)[0]};
}

std::vector<Array> inputs_of(const std::vector<float>& gradients, std::int64_t shards, std::int32_t step = 0) {
  const Shape shape{shards, std::ssize(gradients) / shards};
  return {Array::scalar(step), Array::from(gradients, shape), filled(DType::f32, shape, 0)};
}

std::vector<float> values(const Array& array) { return {array.as<float>().begin(), array.as<float>().end()}; }

template <class T>
void check_nothing_is_lost(Method method, double ratio, std::int64_t size) {
  constexpr std::int64_t kShards = 3;
  const std::vector<Array> inputs = compressed_inputs<T>(kShards, size);
  const Compressed result = compress(method, ratio, inputs);
  const bool chooses = method == Method::top_k || method == Method::random_k;
  for (std::int64_t i = 0; i < size; ++i) {
    T all = 0, kept = 0, magnitude = 0;
    for (std::int64_t shard = 0; shard < kShards; ++shard) {
      const auto at = static_cast<std::size_t>(shard * size + i);
      const T own = inputs[1].as<T>()[at] + inputs[2].as<T>()[at], rest = result.residual.as<T>()[at];
      if (chooses) CHECK((rest == 0 || rest == own));
      all += own, kept += rest, magnitude += std::abs(own) + std::abs(own - rest);
    }
    const T sent = result.sum.as<T>()[static_cast<std::size_t>(i)];
    CHECK(std::abs(sent + kept - all) <= 4 * std::numeric_limits<T>::epsilon() * magnitude);
  }
}

}  // namespace

TEST_CASE("what is sent of a gradient and what remains are together what there was") {
  for (const Method method : kMethods) {
    for (const std::int64_t size : kCompressedSizes) {
      for (const double ratio : {1e-9, 0.01, 0.5, 1.0}) {
        CAPTURE(name_of(method));
        CAPTURE(size);
        CAPTURE(ratio);
        check_nothing_is_lost<float>(method, ratio, size);
        check_nothing_is_lost<double>(method, ratio, size);
      }
    }
  }
}

TEST_CASE("top_k sends the largest elements, of equal ones the first") {
  const std::vector<float> x{1, -3, 3, 2, -3};
  CHECK(values(compress(Method::top_k, 0.4, inputs_of(x, 1)).sum) == std::vector<float>{0, -3, 3, 0, 0});
  CHECK(values(compress(Method::top_k, 0.8, inputs_of(x, 1)).sum) == std::vector<float>{0, -3, 3, 2, -3});
  CHECK(values(compress(Method::top_k, 1, inputs_of(x, 1)).sum) == x);

  const std::vector<Array> many = compressed_inputs<float>(1, 1024);
  const Compressed some = compress(Method::top_k, 0.25, many);
  float least = std::numeric_limits<float>::infinity(), most = 0;
  for (std::size_t i = 0; i < 1024; ++i) {
    if (const float sent = std::abs(some.sum.as<float>()[i]); sent > 0) least = std::min(least, sent);
    most = std::max(most, std::abs(some.residual.as<float>()[i]));
  }
  CHECK(most <= least);
}

TEST_CASE("random_k sends as many elements, the same of every shard and others in the next step") {
  const std::vector<float> ones(2 * 3000, 1);
  std::vector<int> times(3000);
  std::set<std::vector<float>> different;
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<float> sum = values(compress(Method::random_k, 0.1, inputs_of(ones, 2, step)).sum);
    CHECK(std::ranges::count(sum, 2.0f) == 2 * 102 + 95);  // of 1024, 1024 and 952
    CHECK(std::ranges::count(sum, 0.0f) == 3000 - (2 * 102 + 95));
    for (std::size_t i = 0; i < sum.size(); ++i) times[i] += sum[i] > 0 ? 1 : 0;
    different.insert(sum);
  }
  CHECK(different.size() == kSteps);
  // Binomial: a mean of 20 and a deviation of 4.2. Of 3000, one in 10⁶ is further away than 5 deviations.
  CHECK(std::ranges::min(times) >= 1);
  CHECK(std::ranges::max(times) <= 43);
}

TEST_CASE("by sign, the vote of each shard counts by its magnitude") {
  const std::vector<float> gradients{1, 2,  -3, 4,    // mean magnitude 2.5
                                     1, -1, -1, -1,   // 1
                                     2, -2, 2,  -2};  // 2
  CHECK(values(compress(Method::sign, 1, inputs_of(gradients, 3)).sum) == std::vector<float>{5.5, -0.5, -1.5, -0.5});
}

TEST_CASE("int8 sends every element within half of 1/127 of the largest") {
  const std::vector<Array> inputs = compressed_inputs<float>(1, 5000);
  const Compressed result = compress(Method::int8, 1, inputs);
  for (std::size_t block = 0; block < 5000; block += 1024) {
    float largest = 0, rest = 0;
    for (std::size_t i = block; i < std::min<std::size_t>(block + 1024, 5000); ++i) {
      largest = std::max(largest, std::abs(inputs[1].as<float>()[i] + inputs[2].as<float>()[i]));
      rest = std::max(rest, std::abs(result.residual.as<float>()[i]));
    }
    CHECK(rest <= 0.501f * largest / 127);
    CHECK(rest > 0.3f * largest / 127);
  }
}

TEST_CASE("what is sent of gradients that are not finite is not, and what remains is") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> gradient(300, 1.0f);
    gradient[123] = bad;
    std::fill(gradient.begin() + 150, gradient.begin() + 200, bad);  // more than top_k sends
    for (const Method method : kMethods) {
      CAPTURE(name_of(method));
      const Compressed result = compress(method, 0.01, inputs_of(gradient, 1));
      const auto is_finite = [](float x) { return std::isfinite(x); };
      const bool may_miss_them = method == Method::random_k;
      CHECK((may_miss_them || !std::ranges::all_of(values(result.sum), is_finite)));
      CHECK(std::ranges::all_of(values(result.residual), is_finite));
    }
  }
}

TEST_CASE("compression depends neither on the number of threads nor on what memory held") {
  for (const Method method : kMethods) {
    const std::vector<Array> inputs = compressed_inputs<float>(3, 40'001);
    const Compressed one = compress(method, 0.01, inputs);
    const Compressed other = compress(method, 0.01, inputs, {.width = 3, .garbage = 0});
    for (const auto& [a, b] :
         {std::pair(one.message, other.message), {one.residual, other.residual}, {one.sum, other.sum}}) {
      CHECK(same_bytes(a, b));
    }
  }
}

TEST_CASE("top_k at 1 % sends 68 times fewer bytes, int8 four times and sign 31 times") {
  const std::int64_t size = 1 << 20, bytes = 4 * size;
  const auto sent = [&](Method method) { return ops::MessageFormat(method, 0.01, size, DType::f32).bytes(); };
  CHECK(bytes / sent(Method::top_k) == 68);
  CHECK(sent(Method::random_k) == sent(Method::top_k));
  CHECK(bytes / sent(Method::int8) == 3);
  CHECK(4 * sent(Method::int8) < bytes * 1.005);
  CHECK(bytes / sent(Method::sign) == 31);
}
