#include "core/graph/layout.h"

#include <algorithm>

#include "core/graph/op.h"

namespace braid {

namespace {

/// A name per axis. Nothing is divided along the axes of a value that the pattern does not fit.
std::string names_of(std::string_view pattern, int rank) {
  std::string names(pattern);
  if (const std::size_t any = pattern.find_first_of("*."); any != std::string_view::npos) {
    const std::size_t length = pattern[any] == '*' ? 1 : 3;
    const std::size_t others = pattern.size() - length, expected = std::max(others, static_cast<std::size_t>(rank));
    std::string between = OpAxes::by_place(static_cast<int>(expected - others));
    if (pattern[any] == '.') between.assign(between.size(), '_');
    names.replace(any, length, between);
  }
  const auto expected = static_cast<std::size_t>(rank);
  return names.size() == expected ? names : std::string(expected, '_');
}

std::vector<ValueAxes> axes_of(std::string_view patterns, std::span<const ValueDesc> values) {
  std::vector<ValueAxes> axes;
  for (const ValueDesc& value : values) {
    const std::size_t comma = patterns.find(',');
    std::string_view pattern = patterns.substr(0, comma);
    const char sign = pattern.starts_with('~') || pattern.starts_with('?') ? pattern.front() : '\0';
    if (sign != 0) pattern.remove_prefix(1);
    axes.push_back({names_of(pattern, value.shape.rank()), sign});
    if (comma != std::string_view::npos) patterns.remove_prefix(comma + 1);
  }
  return axes;
}

std::optional<Divided> divide_along(char axis, const Op& op, const Division& node, const NodeAxes& axes) {
  const auto& [inputs, outputs] = axes;
  Divided result;
  bool fits = true;
  const auto layout = [&](const ValueAxes& value, const Shape& shape, Layout without) {
    const std::size_t at = value.names.find(axis);
    if (at == std::string::npos) return without;
    fits = fits && at == 0 && shape[0] % node.shards == 0;
    return Layout::split;
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Layout without = inputs[i].sign == '?' ? node.layouts[i] : Layout::replicated;
    result.inputs.push_back(layout(inputs[i], node.inputs[i].shape, without));
    const bool is_share = inputs[i].sign == '~' && result.inputs[i] == Layout::replicated;
    if (is_share) result.factors.resize(inputs.size(), 1);
    if (is_share) result.factors[i] = 1.0 / node.shards;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Layout without = outputs[i].sign == '~' ? Layout::partial_mean : Layout::partial_sum;
    result.outputs.push_back(layout(outputs[i], node.outputs[i].shape, without));
  }
  if (!fits) return std::nullopt;
  if (result.outputs.front() == Layout::split) {
    const Shape& whole = node.outputs[0].shape;
    result.op = op.for_part(whole.with(0, whole[0] / node.shards));
  }
  return result;
}

}  // namespace

std::string OpAxes::by_place(int rank) {
  std::string names(static_cast<std::size_t>(rank), '0');
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = static_cast<char>('0' + i);
  return names;
}

NodeAxes named_axes(std::string_view notation, const NodeValues& node) {
  const std::size_t arrow = std::min(notation.find("->"), notation.size());
  return {axes_of(notation.substr(0, arrow), node.inputs),
          axes_of(notation.substr(std::min(arrow + 2, notation.size())), node.outputs)};
}

std::optional<Divided> divide_by_axes(const Op& op, const Division& node) {
  const OpAxes axes = op.axes(node);
  if (axes.linear > 0) {
    const auto layouts = node.layouts.first(axes.linear);
    const Layout first = layouts.front();
    if (is_partial(first) && std::ranges::all_of(layouts, [&](Layout each) { return each == first; })) {
      Divided result{.inputs = {layouts.begin(), layouts.end()}, .outputs = std::vector(node.outputs.size(), first)};
      result.inputs.resize(node.inputs.size(), Layout::replicated);
      return result;
    }
  }
  const NodeAxes named = named_axes(axes.notation, node);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.layouts[i] != Layout::split || named.inputs[i].names.front() == '_') continue;
    const auto result = divide_along(named.inputs[i].names.front(), op, node, named);
    if (result.has_value()) return result;
  }
  return std::nullopt;
}

std::optional<Divided> divide_by_pieces(const Division& node, std::size_t scalars) {
  if (std::ranges::find(node.layouts, Layout::pieces) == node.layouts.end()) return std::nullopt;
  std::vector<Layout> inputs(scalars, Layout::replicated);
  inputs.resize(node.inputs.size(), Layout::pieces);
  return Divided{.inputs = std::move(inputs), .outputs = std::vector(node.outputs.size(), Layout::pieces)};
}

}  // namespace braid
