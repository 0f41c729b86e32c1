#pragma once
// Small helpers for text that users read.

#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace braid {

/// "1 step", "2 steps"; plural(2, "class", "es") is "2 classes".
template <std::integral Count>
std::string plural(Count count, std::string_view word, std::string_view ending = "s") {
  return std::to_string(count).append(" ").append(word).append(count == 1 ? "" : ending);
}

/// "a, b, c", of anything that can be streamed, or of the text of each item.
template <class List, class Text = std::identity>
std::string comma_list(const List& items, std::string_view separator = ", ", const Text& text = {}) {
  std::string list;
  for (std::string_view before; const auto& item : items) {
    list += message(std::exchange(before, separator), std::invoke(text, item));
  }
  return list;
}

/// The parts of a text between separators, as the lines of a file: none follows a separator at the end.
std::vector<std::string> split_text(std::string_view text, char separator);

/// Whether a byte of UTF-8 begins a character.
constexpr bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

/// Bytes of the UTF-8 character at the start of the text, which is not empty; 0 if there is none.
std::size_t utf8_character_bytes(std::string_view text);

/// Characters, not bytes, of UTF-8.
std::size_t utf8_length(std::string_view text);

/// The text if it has at most `characters` of UTF-8, else its beginning and "…".
std::string shortened(std::string_view text, std::size_t characters);

}  // namespace braid
