#include "ops/elementwise/functions.h"

#include <doctest/doctest.h>

#include "ops/elementwise/expression_program.h"
#include "tests/ops/interpreter.h"

namespace braid::testing {
namespace {

/// The largest error over floats of [from, to], some of every exponent, in units in the last place.
template <class F, class G>
double largest_error(float from, float to, const F& f, const G& exact) {
  double worst = 0;
  for (std::uint32_t step = 0; step < 0xffffffffu - 9973; step += 9973) {
    const float x = std::bit_cast<float>(step);
    if (!(x >= from && x <= to)) continue;
    const double expected = exact(static_cast<double>(x));
    const double unit = std::max(std::abs(expected) * 0x1p-23, 0x1p-149);
    const double error = std::abs(static_cast<double>(f(x)) - expected) / unit;
    if (!(error <= worst)) worst = error;  // keeps a NaN
  }
  return worst;
}

}  // namespace

TEST_CASE("vectorised functions are within 4 units in the last place of the exact ones") {
  namespace f = functions::vectorised;
  const float infinity = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
  CHECK(largest_error(-104, 88, f::exp, [](double x) { return std::exp(x); }) <= 4);
  CHECK(largest_error(0x1p-149f, most, f::log, [](double x) { return std::log(x); }) <= 4);
  CHECK(largest_error(0, 1, f::log1p, [](double x) { return std::log1p(x); }) <= 4);
  CHECK(largest_error(-20, 20, f::tanh, [](double x) { return std::tanh(x); }) <= 4);
  CHECK(largest_error(-20, 20, f::erf, [](double x) { return std::erf(x); }) <= 4);
  CHECK(f::exp(infinity) == infinity);
  CHECK(f::exp(-infinity) == 0);
  CHECK(f::exp(89) == infinity);
  CHECK(f::log(infinity) == infinity);
  CHECK(f::log(0) == -infinity);
  CHECK(std::isnan(f::log(-1)));
  CHECK(f::tanh(infinity) == 1);
  CHECK(f::erf(-infinity) == -1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float y : {f::exp(nan), f::log(nan), f::tanh(nan), f::erf(nan)}) CHECK(std::isnan(y));
}

TEST_CASE("results of an expression share a slot unless they are needed at the same time") {
  using enum Function;
  constexpr std::uint8_t r = ops::Expression::kFirstResult;
  const ExpressionProgram chain({{{exp, 0, 0}, {log, r, r}, {neg, r + 1, r + 1}}, {}});
  CHECK(chain.slots == 1);
  const ExpressionProgram both({{{exp, 0, 0}, {log, 0, 0}, {add, r, r + 1}}, {}});
  CHECK(both.slots == 2);
  ops::Expression wide;
  for (int i = 0; i < 5; ++i) wide.instructions.push_back({exp, 0, 0});
  for (std::uint8_t i = 0; i < 4; ++i) wide.instructions.push_back({add, static_cast<std::uint8_t>(r + i), r + 4});
  CHECK_THROWS_WITH_AS(ExpressionProgram{wide}, doctest::Contains("more than 4 results at a time"), Error);
}

TEST_CASE("an expression refuses operands that it does not have") {
  using enum Function;
  const auto infer = [](const ops::Expression& expression) {
    const ValueDesc x{DType::f32, {3}};
    std::vector<OutputDesc> outputs;
    ops::Elementwise(expression).infer({&x, 1}, outputs);
  };
  constexpr std::uint8_t c = ops::Expression::kFirstConstant, r = ops::Expression::kFirstResult;
  CHECK_NOTHROW(infer({{{add, 0, c}}, {1.0}}));
  CHECK_THROWS_WITH_AS(infer({{{add, 0, 1}}, {}}), doctest::Contains("operand 1 of instruction 0"), ShapeError);
  CHECK_THROWS_WITH_AS(infer({{{add, 0, c + 1}}, {1.0}}), doctest::Contains("operand 9"), ShapeError);
  CHECK_THROWS_WITH_AS(infer({{{add, 0, r}}, {}}), doctest::Contains("operand 16"), ShapeError);
}

TEST_CASE("an expression costs what its functions cost, for every element of the output") {
  using enum Function;
  const ValueDesc inputs[] = {{DType::f32, {4, 5}}, {DType::f32, {5}}}, y{DType::f32, {4, 5}};
  const Work one = ops::elementwise(add)->work(inputs, {&y, 1});
  CHECK(one.flops == 20);
  CHECK(one.bytes == 4 * (20 + 5 + 20));
  CHECK(ops::elementwise(tanh)->work({inputs, 1}, {&y, 1}).flops > 100);
}

}  // namespace braid::testing
