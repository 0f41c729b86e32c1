#include "ops/collective/collective.h"

#include <numeric>

#include "ops/common/check.h"

namespace braid::ops {

namespace {

using Kind = CollectiveCall::Kind;

std::int64_t elements(std::span<const ValueDesc> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0},
                         [](std::int64_t sum, const ValueDesc& value) { return sum + value.shape.size(); });
}

std::int64_t bytes(std::int64_t elements, DType dtype) { return elements * static_cast<std::int64_t>(size_of(dtype)); }

/// The calls, if there are other ranks to call.
Communication among(const MeshRanks& along, std::vector<CollectiveCall> calls) {
  if (along.ranks == 1) return {};
  return {along.group(), std::move(calls)};
}

/// Every rank's values, all of one dtype, go to all ranks.
Communication gathered(const MeshRanks& along, std::span<const ValueDesc> own) {
  return among(along, {{.kind = Kind::all_gather, .count = bytes(elements(own), own[0].dtype)}});
}

}  // namespace

void ShardNumber::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, inputs.empty() ? 0 : 1);
  if (!inputs.empty()) check_value(name(), "the number of a shard", inputs[0], {DType::i32, {}});
  outputs.push_back({.dtype = DType::i32, .shape = {}});
}

void ShardRows::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  const Shape& x = inputs[0].shape;
  const std::int64_t shards = attributes_.shards;
  BRAID_CHECK(x.rank() > 0 && x[0] % shards == 0, ShapeError, "[shard_rows] expected rows for ", shards,
              " equal shards, got an input of shape ", x);
  check_value(name(), "the number of the shard", inputs[1], {DType::i32, {}});
  outputs.push_back({.dtype = inputs[0].dtype, .shape = x.with(0, x[0] / shards)});
}

namespace {

/// The first leaf of every tensor.
std::vector<std::size_t> check_summands(const Op& op, const AllReduceAttributes& attributes,
                                        std::span<const ValueDesc> inputs) {
  const auto& [along, shards, exact, divisors, begin, count] = attributes;
  const std::int64_t ranks = along.ranks;
  BRAID_CHECK(ranks > 0 && shards % ranks == 0 && (exact || shards == ranks), ShapeError, "[", op.name(),
              "] expected as many shards as ranks or, if exact, a multiple: ", op);
  const auto leaves = static_cast<std::size_t>(attributes.per_rank());
  check_inputs(op.name(), inputs, leaves * divisors.size());
  BRAID_CHECK(
      count == 0 || (divisors.size() == 1 && begin >= 0 && count > 0 && begin + count <= inputs[0].shape.size()),
      ShapeError, "[", op.name(), "] expected elements of a single tensor, got ", op);
  std::vector<std::size_t> firsts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueDesc& first = inputs[i - i % leaves];
    check_value(op.name(), "a summand", inputs[i], first);
    BRAID_CHECK(first.dtype == inputs[0].dtype && computed_in(first.dtype) == first.dtype, ShapeError, "[", op.name(),
                "] expected tensors of f32 or of f64, got ", first.dtype, " and ", inputs[0].dtype);
    if (i % leaves == 0) firsts.push_back(i);
  }
  return firsts;
}

Work work_of_sum(const AllReduceAttributes& attributes, std::span<const ValueDesc> inputs,
                 std::span<const ValueDesc> outputs) {
  const std::int64_t read = elements(inputs), written = elements(outputs), count = attributes.count;
  const double part = count > 0 ? static_cast<double>(count) / static_cast<double>(outputs[0].shape.size()) : 1;
  return {.flops = part * static_cast<double>(read),
          .bytes = part * 2 * static_cast<double>(bytes(read + written, inputs[0].dtype))};
}

/// Exact sums, whose pieces have `piece` bytes: each rank receives and adds its pieces of every block of leaves.
std::vector<CollectiveCall> exact_sums(const AllReduceAttributes& attributes, std::int64_t piece) {
  const std::int64_t blocks = attributes.per_rank() / leaves_per_block(attributes.per_rank());
  return {static_cast<std::size_t>(blocks), {.kind = Kind::all_to_all, .count = piece}};
}

}  // namespace

void AllReduce::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  for (const std::size_t i : check_summands(*this, attributes(), inputs)) {
    outputs.push_back({.dtype = inputs[i].dtype, .shape = inputs[i].shape, .reuses = static_cast<int>(i)});
  }
}

OpAxes AllReduce::axes(const NodeValues& node) const {
  if (attributes_.count > 0 || attributes_.divisors.size() > 1) return {};
  return {"*->*", node.inputs.size()};
}

Work AllReduce::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return work_of_sum(attributes(), inputs, outputs);
}

Communication AllReduce::communication(std::span<const ValueDesc>, std::span<const ValueDesc> outputs) const {
  const MeshRanks& along = attributes_.along;
  const DType dtype = outputs[0].dtype;
  const std::int64_t count = attributes_.count > 0 ? attributes_.count : elements(outputs);
  if (!attributes_.exact) return among(along, {{.kind = Kind::all_reduce, .count = count, .dtype = dtype}});
  const std::int64_t piece = bytes(piece_of(count, along.ranks), dtype);
  std::vector<CollectiveCall> calls = exact_sums(attributes(), piece);
  calls.push_back({.kind = Kind::all_gather, .count = piece});
  return among(along, std::move(calls));
}

void ReduceScatter::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  for (const std::size_t i : check_summands(*this, attributes(), inputs)) {
    outputs.push_back({.dtype = inputs[i].dtype, .shape = {piece_of(inputs[i].shape.size(), attributes_.along.ranks)}});
  }
}

Work ReduceScatter::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return work_of_sum(attributes(), inputs, outputs);
}

Communication ReduceScatter::communication(std::span<const ValueDesc>, std::span<const ValueDesc> outputs) const {
  const DType dtype = outputs[0].dtype;
  const std::int64_t piece = elements(outputs);
  if (attributes_.exact) return among(attributes_.along, exact_sums(attributes(), bytes(piece, dtype)));
  return among(attributes_.along, {{.kind = Kind::reduce_scatter, .count = piece, .dtype = dtype}});
}

void OwnPiece::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = {piece_of(inputs[0].shape.size(), attributes_.ranks)}});
}

void GatherPieces::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, attributes_.sizes.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::int64_t size = attributes_.sizes[i];
    check_value(name(), "a piece", inputs[i], {inputs[0].dtype, {piece_of(size, attributes_.along.ranks)}});
    outputs.push_back({.dtype = inputs[0].dtype, .shape = {size}});
  }
}

Communication GatherPieces::communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc>) const {
  return gathered(attributes_.along, inputs);
}

void AllGather::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  BRAID_CHECK(!inputs.empty() && inputs[0].shape.rank() > 0, ShapeError, "[", name(), "] expected rows of a shard");
  for (const ValueDesc& input : inputs) check_value(name(), "the rows of a shard", input, inputs[0]);
  const Shape& part = inputs[0].shape;
  const std::int64_t rows = part[0] * attributes_.ranks * static_cast<std::int64_t>(inputs.size());
  outputs.push_back({.dtype = inputs[0].dtype, .shape = part.with(0, rows)});
}

Communication AllGather::communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc>) const {
  return gathered(attributes(), inputs);
}

void AllToAll::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  const auto& [along, from, to] = attributes();
  BRAID_CHECK(!inputs.empty(), ShapeError, "[", name(), "] expected what each shard of the rank has");
  for (const ValueDesc& input : inputs) check_value(name(), "the part of a shard", input, inputs[0]);
  const Shape& part = inputs[0].shape;
  const std::int64_t shards = along.ranks * static_cast<std::int64_t>(inputs.size());
  const auto has = [&](std::int64_t axis) { return axis >= 0 && axis < part.rank(); };
  BRAID_CHECK(has(from) && has(to) && from != to && part[static_cast<int>(to)] % shards == 0, ShapeError, "[", name(),
              "] expected two axes, the second of which has equal parts for ", shards, " shards; got axes ", from,
              " and ", to, " of ", part);
  const Shape joined = part.with(static_cast<int>(from), part[static_cast<int>(from)] * shards);
  outputs.assign(inputs.size(), {.dtype = inputs[0].dtype,
                                 .shape = joined.with(static_cast<int>(to), part[static_cast<int>(to)] / shards)});
}

OpAxes AllToAll::axes(const NodeValues& node) const {
  std::string names = OpAxes::by_place(node.inputs[0].shape.rank());
  names[static_cast<std::size_t>(attributes_.from)] = names[static_cast<std::size_t>(attributes_.to)] = '_';
  return {names + "->" + names, node.inputs.size()};
}

Communication AllToAll::communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc>) const {
  const MeshRanks& along = attributes_.along;
  const std::int64_t sent = bytes(elements(inputs), inputs[0].dtype) / along.ranks;  // to each rank
  return among(along, {{.kind = Kind::all_to_all, .count = sent}});
}

void AverageOverRanks::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape, .views = 0});
}

void Send::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>&) const { check_inputs(name(), inputs, 1); }

Communication Send::communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc>) const {
  return {.exchanged = Message{.direction = Message::Direction::send,
                               .peer = static_cast<int>(attributes_.to),
                               .tag = static_cast<int>(attributes_.tag),
                               .bytes = bytes(elements(inputs), inputs[0].dtype)}};
}

void Receive::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 0);
  outputs.push_back({.dtype = attributes_.output.dtype, .shape = attributes_.output.shape});
}

Communication Receive::communication(std::span<const ValueDesc>, std::span<const ValueDesc> outputs) const {
  return {.exchanged = Message{.direction = Message::Direction::receive,
                               .peer = static_cast<int>(attributes_.from),
                               .tag = static_cast<int>(attributes_.tag),
                               .bytes = bytes(elements(outputs), outputs[0].dtype)}};
}

void FromNeighbour::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  check_value(name(), "what stands in for it", inputs[1], inputs[0]);
  BRAID_CHECK(attributes_.from == -1 || attributes_.from == 1, ShapeError,
              "[from_neighbour] expected -1 or 1, the rank before or after, got ", attributes_.from);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape, .reuses = 1});
}

Communication FromNeighbour::communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc>) const {
  return among(attributes_.along, {{.kind = Kind::shift,
                                    .count = bytes(elements(inputs.first(1)), inputs[0].dtype),
                                    .root = static_cast<int>(attributes_.from)}});
}

}  // namespace braid::ops
