#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace braid {

/// The candidate that is close to the text, allowing for capitals and an edit in every three characters; empty if there
/// is none.
std::string_view nearest(std::string_view text, std::span<const std::string> candidates);

/// " (did you mean 'batch_size'?)" if a candidate is close to the text; else nothing.
std::string suggestion(std::string_view text, std::span<const std::string> candidates);

/// "a, b, c", of anything that can be streamed, or of the text of each item.
template <class List, class Text = std::identity>
std::string comma_list(const List& items, std::string_view separator = ", ", const Text& text = {}) {
  std::string list;
  for (std::string_view before; const auto& item : items) {
    list += message(std::exchange(before, separator), std::invoke(text, item));
  }
  return list;
}

}  // namespace braid
