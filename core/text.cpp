#include "core/text.h"

#include <algorithm>

namespace braid {

std::size_t utf8_length(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string shortened(std::string_view text, std::size_t characters) {
  if (utf8_length(text) <= characters) return std::string(text);
  std::size_t end = 0;
  for (std::size_t begun = 0; end < text.size(); ++end) {
    if (begins_character(text[end]) && ++begun >= characters) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace braid
