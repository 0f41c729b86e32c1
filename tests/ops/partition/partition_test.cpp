// Steps divided over shards of one rank compute what they compute whole. tests/train/parallel/parallel_test.cpp tests
// several ranks.

#include "ops/rewrites/partition.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "ops/rewrites/partition_check.h"
#include "tests/effort.h"
#include "tests/ops/check_close.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/op_table.h"

using namespace braid;
using namespace braid::testing;

namespace {

bool overwrites(const Op& op, const std::vector<Array>& inputs, std::size_t input) {
  std::vector<ValueDesc> descs;
  for (const Array& array : inputs) descs.push_back(desc_of(array));
  std::vector<OutputDesc> outputs;
  op.infer(descs, outputs);
  return std::ranges::any_of(outputs,
                             [&](const OutputDesc& output) { return output.overwrites == static_cast<int>(input); });
}

/// Which of the inputs are split, as the bits of a number.
struct Split {
  std::uint32_t inputs;
  bool has(std::size_t input) const { return (inputs >> input & 1U) != 0; }
};

/// The outputs of an op when these inputs are split over the shards.
std::vector<Array> run_divided(const OpPtr& op, const std::vector<Array>& inputs, Split split, int shards,
                               std::int64_t slice_bytes = 0, char axis = 0) {
  StepGraph recorded;
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueDesc desc = desc_of(inputs[i]);
    values.push_back(overwrites(*op, inputs, i)
                         ? recorded.add_persistent(desc, ValueKind::state, static_cast<std::int32_t>(i))
                         : recorded.add_input(desc, split.has(i) ? Layout::split : Layout::replicated));
  }
  const ValueId first = recorded.add_node(op, values);
  recorded.divide_along(0, {axis});
  for (int i = 0; i < recorded.node(0).output_count; ++i) recorded.keep(first + i);
  const ops::Partition partition{.ranks = 1, .shards = shards, .exact = true, .slice_bytes = slice_bytes};
  const RewrittenGraph divided = ops::partition(recorded, partition);
  CHECK(ops::check_partition(recorded, divided, partition) == "");
  std::vector<std::pair<ValueId, Array>> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) given.emplace_back(divided.value(values[i]), inputs[i]);
  Interpreter interpreter(divided.graph, given);
  interpreter.run();
  std::vector<Array> outputs;
  for (int i = 0; i < recorded.node(0).output_count; ++i) outputs.push_back(interpreter.read(divided.value(first + i)));
  return outputs;
}

bool is_divided(const Op& op, const std::vector<Array>& inputs, const std::vector<Layout>& layouts, int shards) {
  std::vector<ValueDesc> descs;
  for (const Array& input : inputs) descs.push_back(desc_of(input));
  std::vector<OutputDesc> inferred;
  op.infer(descs, inferred);
  const std::vector<ValueDesc> outputs = descs_of(inferred);
  return op.divide({{descs, outputs}, layouts, shards}).has_value();
}

/// Whether the op has a rule for inputs that are split so.
bool is_divided(const Op& op, const std::vector<Array>& inputs, Split split, int shards) {
  std::vector<Layout> layouts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    layouts.push_back(split.has(i) ? Layout::split : Layout::replicated);
  }
  return is_divided(op, inputs, layouts, shards);
}

}  // namespace

TEST_CASE("an op computes the same divided along any axis that it names" * doctest::skip(kThreadsOnly)) {
  std::map<char, int> cases;
  for (const OpRow& row : op_table()) {
    const std::vector<Array> inputs = make_inputs(row, DType::f64);
    const std::vector<Array> whole = run_op(*row.op, inputs, {.portable = true});
    std::vector<ValueDesc> input_descs, output_descs;
    for (const Array& input : inputs) input_descs.push_back(desc_of(input));
    for (const Array& output : whole) output_descs.push_back(desc_of(output));
    const NodeValues node{input_descs, output_descs};
    std::set<char> names;
    for (const ValueAxes& input : named_axes(row.op->axes(node).notation, node).inputs) {
      for (const char name : input.names) names.insert(static_cast<char>(std::tolower(name)));
    }
    names.erase('_');
    if (row.op->name().find("batch_norm") != std::string_view::npos) names.erase('n');  // statistics are a shard's
    for (const char name : names) {
      for (const int shards : {2, 3}) {
        const std::vector<Layout> replicated(inputs.size());
        if (!is_divided(*row.op, inputs, layouts_along(name, *row.op, node, replicated), shards)) continue;
        CAPTURE(*row.op);
        CAPTURE(inputs[0].shape());
        CAPTURE(name);
        CAPTURE(shards);
        ++cases[name];
        check_close(run_divided(row.op, inputs, {0}, shards, 0, name), whole, [](const Array&) { return 1e-12; });
      }
    }
  }
  for (const char name : {'n', 'h', 'w', 'c', 'k', '0', '1', '2'}) {
    CAPTURE(name);
    CHECK(cases[name] > 5);
  }
}

TEST_CASE("an op computes the same however its inputs are split" * doctest::skip(kThreadsOnly)) {
  int cases = 0, divided = 0;
  for (const OpRow& row : op_table()) {
    // Its statistics are those of a shard; what comes of it is tested below. Others are what steps are divided into.
    if (row.op->name().find("batch_norm") != std::string_view::npos || row.op->name().starts_with("shard_")) continue;
    const std::vector<Array> inputs = make_inputs(row, DType::f64);
    const std::vector<Array> whole = run_op(*row.op, inputs, {.portable = true});
    if (inputs.size() > 8) continue;
    std::int64_t slice_bytes = sizeof(double);  // a third of the largest output
    for (const Array& output : whole) {
      slice_bytes = std::max(slice_bytes, static_cast<std::int64_t>(output.bytes()) / 3);
    }
    for (const int shards : {2, 3}) {
      Split splittable{0};
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Shape& shape = inputs[i].shape();
        const bool even = shape.rank() > 0 && shape[0] > 0 && shape[0] % shards == 0;
        if (even && !overwrites(*row.op, inputs, i)) splittable.inputs |= 1U << i;
      }
      for (std::uint32_t subset = splittable.inputs; subset != 0; subset = (subset - 1) & splittable.inputs) {
        CAPTURE(*row.op);
        CAPTURE(inputs[0].shape());
        CAPTURE(shards);
        CAPTURE(subset);
        const std::vector<Array> parts = run_divided(row.op, inputs, {subset}, shards);
        ++cases;
        divided += is_divided(*row.op, inputs, Split{subset}, shards);
        check_close(parts, whole, [](const Array&) { return 1e-12; });
        const std::vector<Array> sliced = run_divided(row.op, inputs, {subset}, shards, slice_bytes);
        CHECK(std::ranges::equal(sliced, parts, same_bytes));
      }
    }
  }
  CHECK(cases > 300);
  CHECK(divided > 200);  // the others are computed whole
}
