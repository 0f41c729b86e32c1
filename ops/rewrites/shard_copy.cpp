#include "ops/rewrites/shard_copy.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ops/elementwise/elementwise.h"
#include "ops/layout/concat.h"
#include "ops/layout/reshape.h"
#include "ops/layout/strided_copy.h"

namespace braid::ops {

ValueId ShardCopy::reshaped(ValueId here, const Shape& shape) {
  if (desc(here).shape == shape) return here;
  return apply(std::make_shared<Reshape>(shape), {here});
}

ValueId ShardCopy::swapped(ValueId here, std::int64_t a, std::int64_t b) {
  const std::int64_t rows = a * b;
  const ValueId viewed = reshaped(here, {a, b, rows == 0 ? 0 : desc(here).shape.size() / rows});
  return apply(std::make_shared<Permute>(std::vector{1, 0, 2}), {viewed});
}

ValueId ShardCopy::rows(ValueId here, int axis, std::int64_t begin, std::int64_t count) {
  const Shape& x = desc(here).shape;
  if (begin == 0 && count == x[axis]) return here;
  std::vector<std::int64_t> begins(static_cast<std::size_t>(x.rank()));
  begins[static_cast<std::size_t>(axis)] = begin;
  return apply(std::make_shared<Window>(std::move(begins), x.with(axis, count), 0.0), {here});
}

ValueId ShardCopy::of_neighbour(int direction, ValueId here, double fill) {
  const ValueId filled = add(std::make_shared<Fill>(desc(here), fill), {}, kind(here), made_of_);
  if (along_.ranks == 1) return filled;
  return apply(std::make_shared<FromNeighbour>(along_, direction), {here, filled});
}

std::vector<ValueId> ShardCopy::with_halos(const std::vector<ValueId>& parts, Layout halo, double fill) {
  const std::int64_t own = desc(parts.front()).shape[halo.axis];
  const auto last_rows = [&](ValueId part) { return rows(part, halo.axis, own - halo.below, halo.below); };
  const auto first_rows = [&](ValueId part) { return rows(part, halo.axis, 0, halo.above); };
  std::vector<ValueId> made;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    std::vector<ValueId> joined;
    if (halo.below > 0) {
      joined.push_back(s > 0 ? last_rows(parts[s - 1]) : of_neighbour(-1, last_rows(parts.back()), fill));
    }
    const std::int64_t begin = std::max(0, -halo.below);
    joined.push_back(rows(parts[s], halo.axis, begin, own + std::min(0, halo.above) - begin));
    if (halo.above > 0) {
      const bool is_last = s + 1 == parts.size();
      joined.push_back(is_last ? of_neighbour(1, first_rows(parts.front()), fill) : first_rows(parts[s + 1]));
    }
    made.push_back(join(joined, halo.axis));
  }
  return made;
}

ValueId ShardCopy::join(const std::vector<ValueId>& values, int axis) {
  if (values.size() == 1) return values.front();
  return apply(std::make_shared<Concat>(axis), values);
}

std::vector<ValueId> ShardCopy::add_halos(const std::vector<ValueId>& parts, Layout halo) {
  const std::int64_t own = desc(parts.front()).shape[halo.axis] - halo.below - halo.above, end = halo.below + own;
  const auto last_rows = [&](ValueId part) { return rows(part, halo.axis, end, halo.above); };
  const auto first_rows = [&](ValueId part) { return rows(part, halo.axis, 0, halo.below); };
  std::vector<ValueId> made;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    std::vector<ValueId> summands{rows(parts[s], halo.axis, halo.below, own)};
    if (halo.above > 0) {
      const ValueId from = s > 0 ? parts[s - 1] : of_neighbour(-1, last_rows(parts.back()), 0);
      summands.push_back(rows(from, halo.axis, s > 0 ? end : 0, own));
    }
    if (halo.below > 0) {
      const bool is_last = s + 1 == parts.size();
      const ValueId from = is_last ? of_neighbour(1, first_rows(parts.front()), 0) : parts[s + 1];
      summands.push_back(rows(from, halo.axis, halo.below - own, own));
    }
    made.push_back(summands.size() == 1 ? summands.front() : apply(std::make_shared<Sum>(), summands));
  }
  return made;
}

}  // namespace braid::ops
