#pragma once

#include <span>
#include <string>
#include <string_view>

namespace braid {

/// The candidate that is close to the text, allowing for capitals and an edit in every three characters; empty if there
/// is none.
std::string_view nearest(std::string_view text, std::span<const std::string> candidates);

/// " (did you mean 'batch_size'?)" if a candidate is close to the text; else nothing.
std::string suggestion(std::string_view text, std::span<const std::string> candidates);

}  // namespace braid
