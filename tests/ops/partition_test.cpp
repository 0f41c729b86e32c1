// Steps divided over shards of one rank compute what they compute whole. tests/train/parallel/parallel_test.cpp tests
// several ranks.

#include "ops/rewrites/partition.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "ops/collective/collective.h"
#include "ops/conv/conv2d.h"
#include "ops/elementwise/elementwise.h"
#include "ops/layout/strided_copy.h"
#include "ops/matmul/linear.h"
#include "ops/norm/batch_norm.h"
#include "ops/optimizer/optimizer.h"
#include "tests/effort.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/op_table.h"
#include "tests/ops/rounding.h"

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
                               std::int64_t slice_bytes = 0) {
  StepGraph recorded;
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueDesc desc = desc_of(inputs[i]);
    values.push_back(overwrites(*op, inputs, i)
                         ? recorded.add_persistent(desc, ValueKind::state, static_cast<std::int32_t>(i))
                         : recorded.add_input(desc, split.has(i)));
  }
  const ValueId first = recorded.add_node(op, values);
  for (int i = 0; i < recorded.node(0).output_count; ++i) recorded.keep(first + i);
  const RewrittenGraph divided =
      ops::partition(recorded, {.ranks = 1, .shards = shards, .exact = true, .slice_bytes = slice_bytes});
  std::vector<std::pair<ValueId, Array>> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) given.emplace_back(divided.value(values[i]), inputs[i]);
  Interpreter interpreter(divided.graph, given);
  interpreter.run();
  std::vector<Array> outputs;
  for (int i = 0; i < recorded.node(0).output_count; ++i) outputs.push_back(interpreter.read(divided.value(first + i)));
  return outputs;
}

/// Part `part` of `parts` along each axis of a value that has this name.
Array part_of(const Array& whole, const ValueAxes& axes, char name, std::int64_t part, std::int64_t parts) {
  const std::size_t at = axes.names.find(name);
  if (at == std::string::npos) return whole;
  const int axis = static_cast<int>(at);
  const Shape shape = whole.shape().with(axis, whole.shape()[axis] / parts);
  std::vector<std::int64_t> begin(axes.names.size());
  begin[at] = part * shape[axis];
  return run_op(ops::Window(begin, shape, 0.0), {whole}, {.portable = true}).front();
}

/// Whether the op has a rule for inputs that are split so.
bool is_divided(const Op& op, const std::vector<Array>& inputs, Split split, int shards) {
  std::vector<ValueDesc> descs;
  std::vector<Layout> layouts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    descs.push_back(desc_of(inputs[i]));
    layouts.push_back(split.has(i) ? Layout::split : Layout::replicated);
  }
  std::vector<OutputDesc> inferred;
  op.infer(descs, inferred);
  const std::vector<ValueDesc> outputs = descs_of(inferred);
  return op.divide({descs, outputs, layouts, shards}).has_value();
}

}  // namespace

TEST_CASE("an op makes parts of parts along every axis that it names, and summands for outputs that lack it" *
          doctest::skip(kThreadsOnly)) {
  int cases = 0;
  for (const OpRow& row : op_table()) {
    const std::vector<Array> inputs = make_inputs(row, DType::f64);
    const std::vector<Array> whole = run_op(*row.op, inputs, {.portable = true});
    std::vector<ValueDesc> input_descs, output_descs;
    for (const Array& input : inputs) input_descs.push_back(desc_of(input));
    for (const Array& output : whole) output_descs.push_back(desc_of(output));
    const NodeValues node{input_descs, output_descs};
    const NodeAxes axes = named_axes(row.op->axes(node).notation, node);
    std::set<char> names;
    for (const ValueAxes& input : axes.inputs) names.insert(input.names.begin(), input.names.end());
    names.erase('_');
    const std::string_view op = row.op->name();  // whose statistics, or draws, are those of the part
    if (op.find("batch_norm") != std::string_view::npos || op == "dropout") names.erase('n');
    for (const char name : names) {
      for (const std::int64_t parts : {2, 3}) {
        const auto is_even = [&](const ValueAxes& value, const Array& array) {
          const std::size_t at = value.names.find(name);
          return at == std::string::npos || array.shape()[static_cast<int>(at)] % parts == 0;
        };
        bool even = true;
        for (std::size_t i = 0; i < inputs.size(); ++i) even = even && is_even(axes.inputs[i], inputs[i]);
        for (std::size_t i = 0; i < whole.size(); ++i) even = even && is_even(axes.outputs[i], whole[i]);
        if (!even) continue;
        CAPTURE(*row.op);
        CAPTURE(inputs[0].shape());
        CAPTURE(name);
        CAPTURE(parts);
        ++cases;
        std::vector<std::vector<Array>> summands(whole.size());
        for (std::int64_t part = 0; part < parts; ++part) {
          std::vector<Array> given;
          for (std::size_t i = 0; i < inputs.size(); ++i) {
            given.push_back(part_of(inputs[i], axes.inputs[i], name, part, parts));
            if (axes.inputs[i].sign != '~' || axes.inputs[i].names.find(name) != std::string::npos) continue;
            given.back() = run_op(ops::Scale(1.0 / static_cast<double>(parts)), {given.back()}, {}).front();
          }
          const Array first = part_of(whole[0], axes.outputs[0], name, part, parts);
          const OpPtr own = row.op->for_part(first.shape());
          const std::vector<Array> made = run_op(own == nullptr ? *row.op : *own, given, {.portable = true});
          REQUIRE(made.size() == whole.size());
          for (std::size_t i = 0; i < whole.size(); ++i) {
            if (axes.outputs[i].names.find(name) == std::string::npos) {
              summands[i].push_back(made[i]);
              continue;
            }
            CAPTURE(i);
            const Array expected = part_of(whole[i], axes.outputs[i], name, part, parts);
            REQUIRE(made[i].shape() == expected.shape());
            CHECK(largest_difference(made[i], expected) <= 1e-12 * std::max(1.0, braid::testing::largest(expected)));
          }
        }
        for (std::size_t i = 0; i < whole.size(); ++i) {
          if (summands[i].empty()) continue;
          CAPTURE(i);
          Array sum = run_op(ops::Sum(), summands[i], {}).front();
          if (axes.outputs[i].sign == '~') sum = run_op(ops::Scale(1.0 / static_cast<double>(parts)), {sum}, {}).front();
          CHECK(largest_difference(sum, whole[i]) <= 1e-12 * std::max(1.0, braid::testing::largest(whole[i])));
        }
      }
    }
  }
  CHECK(cases > 300);
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
        REQUIRE(parts.size() == whole.size());
        ++cases;
        divided += is_divided(*row.op, inputs, {subset}, shards);
        for (std::size_t i = 0; i < whole.size(); ++i) {
          REQUIRE(parts[i].shape() == whole[i].shape());
          CAPTURE(i);
          CHECK(largest_difference(parts[i], whole[i]) <= 1e-12 * std::max(1.0, braid::testing::largest(whole[i])));
        }
        const std::vector<Array> sliced = run_divided(row.op, inputs, {subset}, shards, slice_bytes);
        for (std::size_t i = 0; i < whole.size(); ++i) {
          CHECK(std::memcmp(sliced[i].data(), parts[i].data(), parts[i].bytes()) == 0);
        }
      }
    }
  }
  CHECK(cases > 300);
  CHECK(divided > 200);  // the others are computed whole
}
