#pragma once
// Rules that divide most ops into shards of the samples.

#include <algorithm>
#include <utility>

#include "core/graph/op.h"

namespace braid {

/// Inputs and outputs have the given layouts; the last one applies to all that follow. Nothing if no input that should
/// be split is split.
inline std::optional<Divided> divided(const Division& node, std::vector<Layout> inputs, std::vector<Layout> outputs,
                                      OpPtr op = nullptr) {
  inputs.resize(node.inputs.size(), inputs.back());
  outputs.resize(node.outputs.size(), outputs.back());
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    any = any || (inputs[i] == Layout::split && node.layouts[i] == Layout::split);
  }
  if (!any) return std::nullopt;
  return Divided{.inputs = std::move(inputs), .outputs = std::move(outputs), .op = std::move(op)};
}

/// Updates of tensors in pieces, which follow `scalars` inputs: the same on pieces. Nothing if none is in pieces.
inline std::optional<Divided> divided_by_pieces(const Division& node, std::size_t scalars) {
  if (!node.any(Layout::pieces)) return std::nullopt;
  std::vector<Layout> inputs(scalars, Layout::replicated);
  inputs.resize(node.inputs.size(), Layout::pieces);
  return Divided{.inputs = std::move(inputs), .outputs = std::vector(node.outputs.size(), Layout::pieces)};
}

/// The same op with a shard's rows of the shape among its attributes.
template <class Op>
OpPtr op_for_shard(const Division& node, const Op& op) {
  auto attributes = op.attributes();
  attributes.shape = node.rows_of(attributes.shape);
  return std::make_shared<Op>(attributes);
}

/// Rows of all inputs make rows of all outputs. With `op`, which computes them.
inline std::optional<Divided> divided_by_rows(const Division& node, OpPtr op = nullptr) {
  return divided(node, {Layout::split}, {Layout::split}, std::move(op));
}

/// The same for an op that has the output's shape among its attributes.
template <class Op>
std::optional<Divided> divided_with_shape(const Division& node, const Op& op) {
  return divided_by_rows(node, op_for_shard(node, op));
}

/// The same for a map that is linear in all inputs: it may also be applied to the summands of a sum or mean.
inline std::optional<Divided> divided_linearly(const Division& node) {
  const Layout first = node.layouts.front();
  const bool alike = std::ranges::all_of(node.layouts, [&](Layout layout) { return layout == first; });
  if (!alike || !is_partial(first)) return divided_by_rows(node);
  return Divided{.inputs = std::vector(node.inputs.size(), first), .outputs = std::vector(node.outputs.size(), first)};
}

}  // namespace braid
