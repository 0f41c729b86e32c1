// What must hold for every row of the op table.

#include "tests/ops/op_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <set>
#include <sstream>

#include "core/base/hash.h"
#include "core/text/json.h"
#include "tests/effort.h"
#include "tests/ops/check_close.h"
#include "tests/ops/interpreter.h"

using namespace braid;
using namespace braid::testing;

namespace {

struct TypedRow {
  const OpRow& row;
  DType dtype;
};

/// Every row in each of the types; in f16 and bf16 only where they make a difference. With sanitizers, or where code is
/// not optimised, each in one of them.
std::vector<TypedRow> rows_in(std::initializer_list<DType> dtypes) {
  std::vector<TypedRow> list;
  for (const OpRow& row : op_table()) {
    std::vector<DType> types;
    for (const DType dtype : dtypes) {
      if (computed_in(dtype) == dtype || has_low_precision(row)) types.push_back(dtype);
    }
    if (!kEveryCase && !types.empty()) types = {types[list.size() % types.size()]};
    for (const DType dtype : types) list.push_back({row, dtype});
  }
  return list;
}

/// The row's loss, a random projection of output 0, in f64.
double projection(const OpRow& row, const std::vector<Array>& inputs, const Array& weights) {
  const Array y = run_op(*row.op, inputs, {.portable = true})[0];
  const std::span<const double> terms = y.as<double>();
  return std::inner_product(terms.begin(), terms.end(), weights.as<double>().begin(), 0.0);
}

Hash hash_of(const Op& op) {
  Hash hash;
  op.hash(hash);
  return hash;
}

std::string json_of(const Op& op) {
  std::ostringstream out;
  op.print_attributes(out, Notation::json);
  return out.str();
}

}  // namespace

TEST_CASE("every CPU kernel has a row in the op table") {
  for (const std::string_view name : kernel_names(DeviceType::cpu)) {
    if (name.starts_with("test_")) continue;            // tests/ops/registration_test.cpp
    if (name.ends_with("compress")) continue;           // tests/ops/compression_test.cpp
    if (name == "send" || name == "receive") continue;  // tests/train/parallel/pipeline_test.cpp
    CAPTURE(name);
    CHECK(std::ranges::any_of(op_table(), [&](const OpRow& row) { return row.op->name() == name; }));
  }
}

TEST_CASE("fast f32 kernels agree with plain loops in f64" * doctest::skip(kThreadsOnly)) {
  for (const OpRow& row : op_table()) {
    CAPTURE(describe(row));
    const std::vector<Array> inputs = make_inputs(row, DType::f32);
    const std::vector<Array> fast = run_op(*row.op, inputs, {.width = 2});
    const std::vector<Array> exact = run_op(*row.op, make_inputs(row, DType::f64), {.portable = true});
    check_close(fast, exact, [&](const Array& output) {
      return sum_error(reduction_length(row, inputs, output), unit_roundoff(output.dtype()));
    });
  }
}

TEST_CASE("f16 and bf16 kernels compute in f32 and round their outputs to nearest even") {
  for (const auto& [row, dtype] : rows_in({DType::f16, DType::bf16})) {
    CAPTURE(describe(row));
    CAPTURE(dtype);
    std::vector<Array> inputs = make_inputs(row, dtype);
    const std::vector<Array> low = run_op(*row.op, inputs, {.width = 2});
    for (Array& input : inputs) input = cast(input, computed_in(input.dtype()));
    const std::vector<Array> wide = run_op(*row.op, inputs, {.width = 2});
    for (std::size_t i = 0; i < low.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bytes(low[i], cast(wide[i], low[i].dtype())));  // the same kernel: no tolerance
    }
  }
}

TEST_CASE("gradient rules agree with central differences in f64" * doctest::skip(kThreadsOnly)) {
  constexpr double kEpsilon = 1e-6, kAbsolute = 1e-5, kRelative = 1e-3;
  constexpr std::int64_t kStride = kEveryCase ? 1 : 7;  // every element takes minutes
  constexpr double kMostOperations = 2e8;               // of a row: each of its elements takes two runs
  for (const OpRow& row : op_table()) {
    if (row.differentiable.empty()) continue;
    CAPTURE(describe(row));
    std::vector<Array> inputs = make_inputs(row, DType::f64);

    Interpreter interpreter;
    StepGraph& graph = interpreter.graph();
    std::vector<ValueId> ids;
    double elements = 0;
    for (const Array& input : inputs) {
      ids.push_back(interpreter.add(input, true));
      elements += static_cast<double>(input.size());
    }
    const ValueId y = graph.add_node(row.op, ids);
    const double flops = row.op->work(graph.input_descs(0), graph.output_descs(0)).flops;
    if (elements * std::max(flops, elements) > kMostOperations) continue;
    const Array weights = make_inputs({row.op, {{graph.value(y).desc.shape}}}, DType::f64)[0];
    const ValueId dy = interpreter.add(weights);
    NodeGradient gradient(graph, graph.value(y).producer, dy, row.differentiable);
    row.op->gradient(gradient);
    interpreter.run();

    for (const int i : row.differentiable) {
      CAPTURE(i);
      REQUIRE(gradient.gradient(i) != kNoValue);
      const Array analytic = interpreter.read(gradient.gradient(i));
      Array& input = inputs[static_cast<std::size_t>(i)];
      REQUIRE(analytic.shape() == input.shape());
      for (std::int64_t e = 0; e < input.size(); e += kStride) {
        double& x = input.as<double>()[static_cast<std::size_t>(e)];
        const double before = x;
        x = before + kEpsilon;
        const double above = projection(row, inputs, weights);
        x = before - kEpsilon;
        const double below = projection(row, inputs, weights);
        x = before;
        const double numeric = (above - below) / (2 * kEpsilon);
        CHECK(std::abs(element(analytic, e) - numeric) <= kAbsolute + kRelative * std::abs(numeric));
      }
    }
  }
}

TEST_CASE("results do not depend on the width, on what memory held, or on outputs that take the place of inputs") {
  Hash hash;
  for (const auto& [row, dtype] : rows_in({DType::f32, DType::f64, DType::bf16})) {
    CAPTURE(describe(row));
    CAPTURE(dtype);
    const std::vector<Array> inputs = make_inputs(row, dtype);
    const std::vector<Array> one = run_op(*row.op, inputs, {.width = 1, .garbage = 0xff});
    for (const RunOptions& options : {RunOptions{.width = 2, .garbage = 0}, {.width = 3, .in_place = true}}) {
      CAPTURE(options.width);
      const std::vector<Array> other = run_op(*row.op, inputs, options);
      for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bytes(one[i], other[i]));
    }
    for (const Array& array : one)
      hash.add(std::string_view(reinterpret_cast<const char*>(array.data()), array.bytes()));
  }
  // tests/apps/openmp_test.py compares what this prints between runs.
  std::cout << "hash of all results: " << hash.low << ' ' << hash.high << '\n';
}

// Caches, profiles and reports tell ops apart by their attributes.

TEST_CASE("ops with equal attributes have equal hashes and texts") {
  for (const OpRow& row : op_table()) {
    CAPTURE(message(*row.op));
    const OpPtr copy = copy_of_op(row);
    CHECK(copy->equals(*row.op));
    CHECK(hash_of(*copy) == hash_of(*row.op));
    CHECK(message(*copy) == message(*row.op));
  }
}

TEST_CASE("ops that differ in any one attribute are unequal, and so are their hashes, texts and JSON, which is valid") {
  std::set<std::string_view> with_attributes;
  for (const OpRow& row : op_table()) {
    CAPTURE(message(*row.op));
    const std::vector<OpPtr> changed = neighbours(row);
    const std::string json = json_of(*row.op);
    const Json attributes = parse_json(json);
    CHECK(attributes.dump() == json);
    if (!attributes.empty()) {
      REQUIRE(!changed.empty());
      with_attributes.insert(row.op->name());
    }
    for (const OpPtr& other : changed) {
      CAPTURE(message(*other));
      CHECK_FALSE(other->equals(*row.op));
      CHECK(hash_of(*other) != hash_of(*row.op));
      CHECK(message(*other) != message(*row.op));
      CHECK(json_of(*other) != json);
    }
  }
  CHECK(with_attributes.size() > 20);
}
