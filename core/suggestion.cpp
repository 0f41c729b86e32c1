#include "core/suggestion.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.h"

namespace braid {
namespace {

/// Levenshtein's edit distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({replaced, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggestion(std::string_view text, std::span<const std::string> candidates) {
  constexpr std::size_t kMaxLength = 64;
  std::size_t best = std::max<std::size_t>(1, text.size() / 3) + 1;
  std::string_view name;
  if (text.size() > kMaxLength) return "";
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(text, candidate);
    if (distance < best) best = distance, name = candidate;
  }
  return name.empty() ? "" : message(" (did you mean '", name, "'?)");
}

}  // namespace braid
