// Rows of the ops behind the functions on tensors: elementwise expressions, reductions, copies, products, resampling,
// norms.

#include "ops/elementwise/expression.h"
#include "ops/elementwise/random.h"
#include "ops/elementwise/reduce.h"
#include "ops/index/gather.h"
#include "ops/index/top_k.h"
#include "ops/layout/strided_copy.h"
#include "ops/loss/softmax.h"
#include "ops/matmul/linear.h"
#include "ops/norm/group_norm.h"
#include "ops/pool/interpolate.h"
#include "tests/ops/op_rows.h"

namespace braid::testing {

namespace {

/// Whether a function has a derivative for its operands, and what these may hold.
struct FunctionRow {
  Function function;
  int differentiable = 1;
  Data data = Data::normal;
};

}  // namespace

void add_expression_rows(Rows& rows) {
  using enum Function;
  const auto single = [](Function function) {
    return ops::Expression{{{function, 0, static_cast<std::uint8_t>(arity_of(function) - 1)}}, {}};
  };
  const auto add_row = [&](const ops::Expression& expression, std::vector<Input> inputs, int differentiable) {
    std::vector<int> first;
    for (int i = 0; i < differentiable; ++i) first.push_back(i);
    rows.push_back({make<ops::Elementwise>(expression), std::move(inputs), first});
  };
  constexpr std::uint8_t c = ops::Expression::kFirstConstant, r = ops::Expression::kFirstResult;
  constexpr Data positive = Data::positive, wide = Data::wide;
  static constexpr FunctionRow functions[] = {{add, 2},
                                              {sub, 2},
                                              {mul, 2},
                                              {Function::div, 2, positive},
                                              {minimum, 2},
                                              {maximum, 2},
                                              {clamp_min, 2},
                                              {clamp_max, 2},
                                              {pow, 2, positive},
                                              {neg},
                                              {abs},
                                              {sign},
                                              {exp},
                                              {log, 1, positive},
                                              {sqrt, 1, positive},
                                              {sigmoid, 1, wide},
                                              {tanh},
                                              {gelu},
                                              {gelu_slope, 0},
                                              {gelu_tanh},
                                              {gelu_tanh_slope, 0},
                                              {silu, 1, wide},
                                              {silu_slope, 0, wide},
                                              {leaky_relu, 2},
                                              {leaky_relu_slope, 0},
                                              {softplus, 1, wide},
                                              {bce_with_logits, 2, wide},
                                              {equal, 0},
                                              {greater, 0},
                                              {less, 0},
                                              {maximum_share, 0},
                                              {gate, 0}};
  static_assert(std::size(functions) == kFunctions);
  for (const FunctionRow& row : functions) {
    const auto count = static_cast<std::size_t>(arity_of(row.function));
    const bool has_derivative = row.function != sign && row.differentiable > 0;
    for (const Shape& x : {Shape{}, {3, 5, 7}, {40001}}) {
      add_row(single(row.function), std::vector<Input>(count, {x, row.data}), has_derivative ? row.differentiable : 0);
    }
  }
  for (const Shape& x : {Shape{1}, {0, 3}, {1, 1, 5, 1}}) {
    add_row(single(mul), {{x}, {x}}, 2);
    add_row(single(exp), {{x}}, 1);
  }
  const std::pair<Shape, Shape> pairs[] = {{{3, 5, 7}, {7}},
                                           {{2, 3, 4, 5}, {2, 1, 1, 5}},
                                           {{4, 1}, {1, 5}},
                                           {{}, {3, 2}},
                                           {{3, 2}, {1}},
                                           {{3, 1, 2}, {4, 1}},
                                           {{2, 3, 4}, {2, 3, 1}},
                                           {{1, 4}, {2, 3, 4}},
                                           {{2, 0}, {1}},
                                           {{5, 64}, {64}},
                                           {{3, 8, 1}, {8, 16}},
                                           {{700, 65}, {65}},
                                           {{3, 19, 21, 64}, {3, 1, 1, 64}},
                                           {{700, 64}, {700, 1}},
                                           {{2, 31, 1, 33, 2}, {1, 31, 17, 1, 2}}};
  for (const auto& [a, b] : pairs) {
    for (const Function function : {add, sub, mul, Function::div, maximum}) {
      add_row(single(function), {{a, positive}, {b, positive}}, 2);
      add_row(single(function), {{b, positive}, {a, positive}}, 0);
    }
  }
  // With constants, on either side; several instructions; inputs used twice; many results at a time.
  add_row({{{sub, c, 0}}, {1.5}}, {{{3, 7}}}, 1);
  add_row({{{pow, 0, c}}, {2.5}}, {{{3, 7}, positive}}, 1);
  add_row({{{clamp_min, 0, c}, {clamp_max, r, c + 1}}, {-0.5, 0.75}}, {{{13, 7}}}, 1);
  add_row({{{sub, 0, 1}, {mul, r, r}}, {}}, {{{3, 7}}, {{3, 7}}}, 2);
  add_row({{{mul, 0, 1}, {sigmoid, 0, 0}, {add, r, r + 1}, {tanh, 1, 1}, {mul, r + 3, r}, {sub, r + 4, r + 2}}, {}},
          {{{3, 7}}, {{7}}}, 2);
  add_row({{{exp, 0, 0}, {add, 0, c}, {mul, 0, 0}, {mul, r, r + 1}, {add, r + 3, r + 2}}, {0.5}}, {{{9001}}}, 0);
  add_row({{{mul, 0, 1}, {add, r, 2}, {sub, r + 1, 3}}, {}}, {{{2, 3, 4}}, {{4}}, {{2, 1, 1}}, {{}}}, 4);
  add_row({{{mul, 0, 1}, {add, r, 2}, {sub, r + 1, 3}}, {}}, {{{}}, {{4, 3}}, {{4, 3}}, {{3}}}, 4);
  for (const auto& [from, to] :
       {std::pair<Shape, Shape>{{3, 1}, {3, 5}}, {{}, {2, 3}}, {{64}, {300, 64}}, {{2, 3}, {2, 3}}}) {
    rows.push_back({make<ops::Elementwise>(ops::Expression{}, to), {{from}}, {0}});
  }
}

void add_reduce_rows(Rows& rows) {
  const std::pair<Shape, Shape> cases[] = {{{}, {}},
                                           {{1}, {0}},
                                           {{7}, {0}},
                                           {{3, 5}, {0}},
                                           {{3, 5}, {1}},
                                           {{3, 5}, {0, 1}},
                                           {{3, 5}, {}},
                                           {{2, 3, 4, 5}, {1, 2}},
                                           {{2, 3, 4, 5}, {0, 2}},
                                           {{2, 3, 4, 5}, {0, 1, 2}},
                                           {{2, 3, 4, 5}, {1, 3}},
                                           {{2, 1, 4, 1}, {1, 2}},
                                           {{2, 2, 3, 2, 2}, {0, 2, 4}},
                                           {{40001}, {0}},
                                           {{300, 3}, {0}},
                                           {{70001, 3}, {0}},
                                           {{513, 67}, {1}},
                                           {{2, 40, 41, 40}, {1, 2}},
                                           {{3, 2500}, {0}},
                                           {{40, 2, 31, 33}, {0, 2}},
                                           {{1000, 90}, {0, 1}}};
  for (const auto& [x, axes] : cases) {
    for (const ops::ReduceKind kind :
         {ops::ReduceKind::sum, ops::ReduceKind::mean, ops::ReduceKind::max, ops::ReduceKind::min}) {
      rows.push_back({make<ops::Reduce>(kind, axes, axes.rank() == 2), {{x}}, {0}});
    }
  }
  rows.push_back({make<ops::Reduce>(ops::ReduceKind::sum, Shape{0}, false), {{{0, 3}}}});
  rows.push_back({make<ops::Reduce>(ops::ReduceKind::max, Shape{1}, false), {{{0, 3}}}});
}

void add_softmax_rows(Rows& rows) {
  for (const bool logarithm : {false, true}) {
    const std::pair<Shape, int> cases[] = {{{1}, 0},          {{7}, 0},       {{5, 1}, 1}, {{3, 5, 4}, 0},
                                           {{3, 5, 4}, 1},    {{3, 5, 4}, 2}, {{0, 3}, 1}, {{700, 33}, 1},
                                           {{4, 50, 150}, 1}, {{300, 90}, 0}};
    for (const auto& [x, axis] : cases) {
      rows.push_back({make<ops::Softmax>(axis, logarithm), {{x, Data::wide}}, {0}});
      rows.push_back({make<ops::SoftmaxBackward>(axis, logarithm), {{x}, {x}}});
    }
  }
}

void add_strided_copy_rows(Rows& rows) {
  const auto permute = [&](std::vector<int> axes, const Shape& x) {
    rows.push_back({make<ops::Permute>(std::move(axes)), {{x}}, {0}});
  };
  permute({}, {});
  permute({0}, {3});
  permute({1, 0}, {3, 5});
  permute({0, 3, 1, 2}, {2, 3, 4, 5});
  permute({2, 0, 1, 3}, {3, 2, 1, 8});  // rows of several elements, and an axis of one
  permute({5, 4, 3, 2, 1, 0}, {2, 1, 3, 2, 2, 2});
  permute({1, 0, 2}, {2, 0, 3});
  permute({0, 2, 1}, {3, 137, 211});
  permute({1, 0, 2}, {37, 41, 64});
  const auto window = [&](std::vector<std::int64_t> begin, const Shape& y, const Shape& x, double value) {
    rows.push_back({make<ops::Window>(std::move(begin), y, value), {{x}}, {0}});
  };
  window({}, {}, {}, 1.5);
  window({2}, {3}, {7}, 0);
  window({1, 0, 2}, {2, 3, 4}, {4, 3, 7}, 0);                // a slice
  window({0, -1, -2, 0}, {2, 5, 8, 3}, {2, 3, 4, 3}, -1.5);  // padding
  window({-1, 2}, {5, 4}, {3, 5}, 2);                        // both
  window({-4, 0}, {3, 2}, {3, 2}, 7);                        // nothing of the input
  window({1, 0}, {0, 2}, {3, 2}, 7);
  window({0, -1}, {2, 3}, {2, 0}, 0.25);
  window({1, 0, 0}, {2, 40, 512}, {4, 40, 512}, 0);  // one piece of memory
  window({0, -3, -3, 0}, {2, 70, 71, 16}, {2, 64, 65, 16}, 0);
}

void add_index_rows(Rows& rows) {
  constexpr std::int64_t all = ops::GatherAttributes::kEveryIndex;
  // x, the axis, the index; 1 is nothing in half of the rows.
  const std::tuple<Shape, int, Shape> cases[] = {{{3}, 0, {5}},
                                                 {{3}, 0, {0}},
                                                 {{4, 3, 2}, 1, {4, 5, 2}},
                                                 {{4, 3, 2}, 1, {1, 5, 1}},
                                                 {{4, 3, 2}, 1, {4, 2, 1}},
                                                 {{4, 3, 2}, 1, {1, 2, 2}},
                                                 {{3, 130}, 0, {40, 1}},  // an embedding
                                                 {{3, 130}, 0, {4, 130}},
                                                 {{5, 2, 3}, 2, {5, 2, 1}},
                                                 {{0, 3}, 1, {0, 2}},
                                                 {{1, 3, 1}, 1, {1, 7, 1}},
                                                 {{3, 70, 400}, 0, {5, 1, 1}},
                                                 {{400, 41, 3}, 2, {400, 41, 2}}};
  for (const std::int64_t nothing : {all, std::int64_t{1}}) {
    for (const auto& [x, axis, index] : cases) {
      const ops::GatherAttributes attributes{axis, nothing};
      rows.push_back({make<ops::Gather>(attributes), {{x}, {index, Data::index}}, {0}});
      rows.push_back({make<ops::ScatterSum>(attributes, x[axis]),
                      {{x.with(axis, index[axis]), Data::normal, true}, {index, Data::index}},
                      {0}});
    }
  }
  for (const bool largest : {true, false}) {
    const std::pair<Shape, std::int64_t> lengths[] = {{{1}, 1},        {{7}, 3},       {{3, 5}, 5},
                                                      {{2, 3, 40}, 1}, {{2, 4}, 0},    {{3, 0}, 0},
                                                      {{0, 4}, 2},     {{300, 70}, 9}, {{5, 700}, 700}};
    for (const auto& [x, k] : lengths) rows.push_back({make<ops::TopK>(k, largest), {{x}}, {0}});
  }
  for (const Shape& shape : {Shape{}, {3}, {0, 3}, {5, 7}, {40001}}) {
    for (const bool normal : {false, true}) {
      for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
        rows.push_back({make<ops::Random>(ValueDesc{dtype, shape}, normal, 7u, 2u), {{{}, Data::step}}});
      }
    }
  }
}

void add_matmul_rows(Rows& rows) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const auto op = make<ops::Matmul>(MatmulOptions{ta, tb});
      const auto add = [&](Shape batch_a, Shape batch_b, std::int64_t m, std::int64_t n, std::int64_t k) {
        const auto matrices = [](const Shape& batch, std::int64_t height, std::int64_t width, bool transposed) {
          std::vector<std::int64_t> extents(batch.extents().begin(), batch.extents().end());
          extents.insert(extents.end(), {transposed ? width : height, transposed ? height : width});
          return Shape(extents);
        };
        rows.push_back({op, {{matrices(batch_a, m, k, ta)}, {matrices(batch_b, k, n, tb)}}, {0, 1}});
      };
      add({}, {}, 1, 1, 1);
      add({}, {}, 2, 3, 5);
      add({2, 3}, {2, 3}, 2, 1, 3);
      add({3}, {}, 2, 3, 2);
      add({}, {2, 2}, 3, 2, 2);
      add({4}, {4}, 3, 2, 0);
      add({0}, {}, 3, 2, 2);
      add({}, {}, 0, 3, 2);
      add({}, {}, 300, 70, 129);
      add({}, {}, 65, 400, 200);
      add({24}, {24}, 65, 33, 64);
      add({9}, {}, 130, 64, 100);
      add({}, {9}, 64, 130, 100);
    }
  }
}

void add_interpolate_rows(Rows& rows) {
  const auto add = [&](Extent2d output, const Shape& x, double step_h = 0, double step_w = 0) {
    for (const Interpolation mode : {Interpolation::nearest, Interpolation::bilinear, Interpolation::nearest_exact}) {
      const auto step = [](double given, std::int64_t in, std::int64_t out) {
        return given != 0 ? given : static_cast<double>(in) / static_cast<double>(out);
      };
      const ops::InterpolateAttributes options{output, step(step_h, x[1], output.h), step(step_w, x[2], output.w),
                                               mode};
      rows.push_back({make<ops::Interpolate>(options), {{x}}, {0}});
      rows.push_back({make<ops::InterpolateBackward>(options, x), {{{x[0], output.h, output.w, x[3]}}}});
    }
  };
  for (const auto& [x, output] : {std::pair<Shape, Extent2d>{{2, 5, 4, 3}, {9, 2}}, {{1, 3, 3, 2}, {1, 4}}}) {
    const auto step = [](std::int64_t in, std::int64_t out) {
      return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
    };
    const ops::InterpolateAttributes options{output, step(x[1], output.h), step(x[2], output.w),
                                             Interpolation::bilinear, true};
    rows.push_back({make<ops::Interpolate>(options), {{x}}, {0}});
    rows.push_back({make<ops::InterpolateBackward>(options, x), {{{x[0], output.h, output.w, x[3]}}}});
  }
  add(1, {1, 1, 1, 1});
  add({4, 6}, {2, 2, 3, 3});
  add({7, 5}, {1, 3, 2, 4});
  add({2, 3}, {1, 5, 4, 2});  // smaller
  add({9, 1}, {1, 1, 7, 2});
  add({5, 7}, {1, 2, 3, 2}, 0.4, 0.4);  // by a factor of 2.5
  add({4, 4}, {0, 2, 2, 3});
  add({4, 4}, {2, 2, 2, 0});
  add({38, 45}, {2, 19, 15, 68});
}

void add_group_norm_rows(Rows& rows) {
  const auto add = [&](std::int64_t groups, const Shape& x) {
    const Shape c{x[2]}, statistics{x[0], groups};
    rows.push_back(
        {make<ops::GroupNorm>(groups, 1e-3), {{x}, {c, Data::normal, true}, {c, Data::normal, true}}, {0, 1, 2}});
    rows.push_back(
        {make<ops::GroupNormBackward>(),
         {{x}, {x}, {c, Data::normal, true}, {statistics, Data::normal, true}, {statistics, Data::positive, true}}});
  };
  add(1, {1, 1, 1});
  add(1, {5, 1, 7});  // layer norm
  add(2, {2, 3, 6});
  add(5, {3, 4, 5});  // instance norm
  add(1, {2, 4, 3});
  add(3, {0, 4, 6});
  add(1, {700, 1, 130});
  add(8, {3, 17 * 19, 64});
  add(7, {2, 401, 21});
  add(67, {2, 600, 67});
}

}  // namespace braid::testing
