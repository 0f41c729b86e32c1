#include "core/text/suggestion.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace braid {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Edit distance that counts two neighbours that changed places as one edit (Damerau, 1964; the restricted form).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j] + (a[i] == b[j] ? 0 : 1), row[j] + 1, last[j + 1] + 1});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view text, std::span<const std::string> candidates) {
  constexpr std::size_t kMaxLength = 64;
  std::size_t best = std::max<std::size_t>(1, text.size() / 3) + 1;
  std::string_view name;
  if (text.size() > kMaxLength) return "";
  std::string word(text);
  std::ranges::transform(word, word.begin(), lower);
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best) best = distance, name = candidate;
  }
  return name;
}

std::string suggestion(std::string_view text, std::span<const std::string> candidates) {
  const std::string_view name = nearest(text, candidates);
  return name.empty() ? "" : message(" (did you mean '", name, "'?)");
}

}  // namespace braid
