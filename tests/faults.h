#pragma once
// What a verifier found, as tests ask about it.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

/// A line each, so that a failed check shows all of them.
inline std::string joined(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + '\n';
  return text;
}

inline bool mentions(const std::vector<std::string>& faults, std::string_view text) {
  return std::ranges::any_of(faults, [&](const std::string& fault) { return fault.find(text) != std::string::npos; });
}

}  // namespace braid
