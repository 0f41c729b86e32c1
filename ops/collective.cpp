#include "ops/collective.h"

#include <numeric>

#include "ops/common/check.h"

namespace braid::ops {

namespace {

double bytes(std::span<const ValueDesc> values) {
  return std::accumulate(values.begin(), values.end(), 0.0, [](double sum, const ValueDesc& value) {
    return sum + static_cast<double>(value.shape.size()) * static_cast<double>(size_of(value.dtype));
  });
}

}  // namespace

void ShardNumber::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 0);
  outputs.push_back({.dtype = DType::i32, .shape = {}});
}

void ShardRows::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  const Shape& x = inputs[0].shape;
  const std::int64_t shards = attributes_.shards;
  BRAID_CHECK(x.rank() > 0 && x[0] % shards == 0, ShapeError, "[shard_rows] expected rows for ", shards,
              " equal shards, got an input of shape ", x);
  check_value(name(), "the number of the shard", inputs[1], {DType::i32, {}});
  const auto extents = x.extents();
  std::vector<std::int64_t> rows(extents.begin(), extents.end());
  rows.front() /= shards;
  outputs.push_back({.dtype = inputs[0].dtype, .shape = Shape(rows)});
}

void AllReduce::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  const auto& [ranks, shards, exact, divisors] = attributes();
  BRAID_CHECK(ranks > 0 && shards % ranks == 0 && (exact || shards == ranks), ShapeError, "[", name(),
              "] expected as many shards as ranks or, if exact, a multiple: ", *this);
  const auto leaves = static_cast<std::size_t>(attributes_.per_rank());
  check_inputs(name(), inputs, leaves * divisors.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueDesc& first = inputs[i - i % leaves];
    check_value(name(), "a summand", inputs[i], first);
    BRAID_CHECK(first.dtype == inputs[0].dtype && computed_in(first.dtype) == first.dtype, ShapeError, "[", name(),
                "] expected tensors of f32 or of f64, got ", first.dtype, " beside ", inputs[0].dtype);
    if (i % leaves == 0) {
      outputs.push_back({.dtype = first.dtype, .shape = first.shape, .reuses = static_cast<int>(i)});
    }
  }
}

Work AllReduce::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return {.flops = bytes(inputs) / static_cast<double>(size_of(inputs[0].dtype)),
          .bytes = 2 * (bytes(inputs) + bytes(outputs))};
}

Communication AllReduce::communication(std::span<const ValueDesc>, std::span<const ValueDesc> outputs) const {
  using Kind = CollectiveCall::Kind;
  const auto& [ranks, shards, exact, divisors] = attributes();
  if (ranks == 1) return {};
  const DType dtype = outputs[0].dtype;
  const auto count = static_cast<std::int64_t>(bytes(outputs)) / static_cast<std::int64_t>(size_of(dtype));
  const int members = static_cast<int>(ranks);
  if (!exact) return {members, {{.kind = Kind::all_reduce, .count = count, .dtype = dtype}}};
  const std::int64_t piece = (count + ranks - 1) / ranks * static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t blocks = attributes_.per_rank() / leaves_per_block(attributes_.per_rank());
  Communication made{members, {static_cast<std::size_t>(blocks), {.kind = Kind::all_to_all, .count = piece}}};
  made.calls.push_back({.kind = Kind::all_gather, .count = piece});
  return made;
}

void AllGather::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  BRAID_CHECK(!inputs.empty() && inputs[0].shape.rank() > 0, ShapeError, "[", name(), "] expected rows of a shard");
  for (const ValueDesc& input : inputs) check_value(name(), "the rows of a shard", input, inputs[0]);
  const auto extents = inputs[0].shape.extents();
  std::vector<std::int64_t> whole(extents.begin(), extents.end());
  whole.front() *= attributes_.ranks * static_cast<std::int64_t>(inputs.size());
  outputs.push_back({.dtype = inputs[0].dtype, .shape = Shape(whole)});
}

Communication AllGather::communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc>) const {
  if (attributes_.ranks == 1) return {};
  const auto own = static_cast<std::int64_t>(bytes(inputs));
  return {static_cast<int>(attributes_.ranks), {{.kind = CollectiveCall::Kind::all_gather, .count = own}}};
}

}  // namespace braid::ops
