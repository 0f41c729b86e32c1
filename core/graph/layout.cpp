#include "core/graph/layout.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "core/graph/op.h"

namespace braid {

namespace {

/// A name per axis, if the pattern fits.
std::string names_of(std::string_view pattern, std::size_t rank) {
  std::string names(pattern);
  if (const std::size_t any = pattern.find_first_of("*."); any != std::string_view::npos) {
    const std::size_t length = pattern[any] == '*' ? 1 : 3, others = pattern.size() - length;
    std::string between = OpAxes::by_place(static_cast<int>(std::max(others, rank) - others));
    if (pattern[any] == '.') between.assign(between.size(), '_');
    names.replace(any, length, between);
  }
  return names;
}

std::vector<ValueAxes> value_axes(std::string_view patterns, std::span<const ValueDesc> values) {
  std::vector<ValueAxes> axes;
  for (const ValueDesc& value : values) {
    const std::size_t comma = patterns.find(',');
    std::string_view pattern = patterns.substr(0, comma);
    const char sign = pattern.starts_with('~') || pattern.starts_with('?') ? pattern.front() : '\0';
    if (sign != 0) pattern.remove_prefix(1);
    axes.push_back({names_of(pattern, static_cast<std::size_t>(value.shape.rank())), sign});
    if (comma != std::string_view::npos) patterns.remove_prefix(comma + 1);
  }
  return axes;
}

bool fits(std::span<const ValueAxes> axes, std::span<const ValueDesc> values) {
  return std::ranges::equal(axes, values, [](const ValueAxes& names, const ValueDesc& value) {
    return std::ssize(names.names) == value.shape.rank();
  });
}

/// The place of an axis, or of windows over it, among the names of a value; npos: none.
std::size_t find_axis(const std::string& names, char axis) {
  return std::min(names.find(axis), names.find(static_cast<char>(std::toupper(axis))));
}

/// The halo of a part of windows over `rows` rows of the axis, whose own part has `own` rows. Nothing unless own rows
/// are those where the windows begin, and the halo is of the neighbours.
std::optional<Layout> with_halo(Layout split, const OpAxes::Windows& windows, std::int64_t rows, std::int64_t own) {
  const std::int64_t above = (rows - 1) * windows.stride + windows.extent - windows.padding - own;
  if (own != rows * windows.stride || windows.padding > own || std::abs(above) > own) return std::nullopt;
  split.below = static_cast<std::int32_t>(windows.padding);
  split.above = static_cast<std::int32_t>(above);
  return split;
}

std::optional<Divided> divide_along(char axis, const Op& op, const Division& node, const NodeAxes& axes,
                                    const OpAxes& stated) {
  const auto& [inputs, outputs] = axes;
  Divided result;
  result.fill = stated.fill;
  std::int64_t rows = 0;  // of each part along the axis
  bool divides = true;
  for (const auto& [list, descs] : {std::pair(&inputs, node.inputs), std::pair(&outputs, node.outputs)}) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (const std::size_t at = (*list)[i].names.find(axis); at != std::string::npos) {
        rows = descs[i].shape[static_cast<int>(at)] / node.shards;
      }
    }
  }
  const auto layout = [&](const ValueAxes& value, const Shape& shape, Layout without) {
    const std::size_t at = find_axis(value.names, axis);
    if (at == std::string::npos) return without;
    const std::int64_t extent = shape[static_cast<int>(at)], own = extent / node.shards;
    divides = divides && extent % node.shards == 0;
    const Layout split = Layout::split_along(at);
    if (value.names[at] == axis) return split;
    const auto windows = std::ranges::find(stated.windows, axis, &OpAxes::Windows::axis);
    const auto halo = windows == stated.windows.end() ? std::nullopt : with_halo(split, *windows, rows, own);
    divides = divides && halo.has_value();
    return halo.value_or(split);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool as_it_lies = inputs[i].sign == '?' && is_partial(node.layouts[i]);
    const Layout without = as_it_lies ? node.layouts[i] : Layout::replicated;
    result.inputs.push_back(layout(inputs[i], node.inputs[i].shape, without));
    const bool is_share = inputs[i].sign == '~' && result.inputs[i] == Layout::replicated;
    if (is_share) result.factors.resize(inputs.size(), 1);
    if (is_share) result.factors[i] = 1.0 / node.shards;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Layout without = outputs[i].sign == '~' ? Layout::partial_mean : Layout::partial_sum;
    result.outputs.push_back(layout(outputs[i], node.outputs[i].shape, without));
  }
  if (!divides) return std::nullopt;
  Shape first = node.outputs[0].shape;
  if (const Layout split = result.outputs.front(); split.is_split()) {
    first = first.with(split.axis, first[split.axis] / node.shards + split.below + split.above);
  }
  result.op = op.for_part(first, axis);
  return result;
}

}  // namespace

std::string OpAxes::by_place(int rank) {
  std::string names(static_cast<std::size_t>(rank), '0');
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = static_cast<char>('0' + i);
  return names;
}

OpAxes OpAxes::all_but(int axis, int rank) {
  std::string names = by_place(rank);
  names[static_cast<std::size_t>((axis + rank) % rank)] = '_';
  return {names + "->" + names};
}

NodeAxes named_axes(std::string_view notation, const NodeValues& node) {
  const std::size_t arrow = std::min(notation.find("->"), notation.size());
  NodeAxes axes{value_axes(notation.substr(0, arrow), node.inputs),
                value_axes(notation.substr(std::min(arrow + 2, notation.size())), node.outputs)};
  if (!fits(axes.inputs, node.inputs) || !fits(axes.outputs, node.outputs)) {
    axes = {value_axes("...", node.inputs), value_axes("...", node.outputs)};
  }
  return axes;
}

char axis_of(char dimension, const Op& op, const NodeValues& node) {
  if (dimension == '_') return dimension;
  const NodeAxes axes = named_axes(op.axes(node).notation, node);
  const auto has = [&](char name) {
    const auto names_it = [&](const ValueAxes& value) { return find_axis(value.names, name) != std::string::npos; };
    return std::ranges::any_of(axes.inputs, names_it) || std::ranges::any_of(axes.outputs, names_it);
  };
  if (dimension == 'c' && has('k')) return 'k';  // c are the channels of the inputs
  return has(dimension) ? dimension : '\0';
}

PerMeshAxis<char> axes_of(std::string_view dimensions, const Op& op, const NodeValues& node) {
  PerMeshAxis<char> axes{};
  for (std::size_t i = 0; i < std::min(dimensions.size(), kMeshAxes); ++i) axes[i] = axis_of(dimensions[i], op, node);
  return axes;
}

std::vector<Layout> layouts_along(char axis, const Op& op, const NodeValues& node, std::span<const Layout> layouts) {
  const NodeAxes named = named_axes(op.axes(node).notation, node);
  std::vector<Layout> changed(layouts.begin(), layouts.end());
  for (std::size_t i = 0; i < changed.size(); ++i) {
    const std::size_t at = axis == '_' ? std::string::npos : find_axis(named.inputs[i].names, axis);
    if (at != std::string::npos) {
      changed[i] = Layout::split_along(at);
    } else if (changed[i].is_split()) {
      changed[i] = Layout::replicated;
    }
  }
  return changed;
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
    if (!node.layouts[i].is_split()) continue;
    const char axis = named.inputs[i].names[static_cast<std::size_t>(node.layouts[i].axis)];
    if (axis == '_') continue;
    const auto result = divide_along(static_cast<char>(std::tolower(axis)), op, node, named, axes);
    if (result.has_value()) return result;
  }
  return std::nullopt;
}

Layouts parameter_layouts(std::string_view dimensions) {
  Layouts layouts{};
  for (std::size_t i = 0; i < std::min(dimensions.size(), kMeshAxes); ++i) {
    if (dimensions[i] == 'c') layouts[i] = Layout::split;
  }
  return layouts;
}

std::optional<Divided> divide_by_tensors(const Division& node, std::size_t scalars) {
  const Layout layout = node.layouts[scalars];  // of the first
  if (layout != Layout::pieces && layout != Layout::split) return std::nullopt;
  std::vector<Layout> inputs(scalars, Layout::replicated);
  inputs.resize(node.inputs.size(), layout);
  return Divided{.inputs = std::move(inputs), .outputs = std::vector(node.outputs.size(), layout)};
}

}  // namespace braid
