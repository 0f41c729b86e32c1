#pragma once

#include <span>
#include <string>
#include <string_view>

namespace braid {

/// " (did you mean 'batch_size'?)" if a candidate is close to the text; else nothing.
std::string suggestion(std::string_view text, std::span<const std::string> candidates);

}  // namespace braid
