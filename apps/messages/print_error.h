#pragma once
#include <string_view>

namespace braid::apps {

/// Prints "braid: error: WHAT" on standard error; in red on a terminal with colours, unless NO_COLOR is set
/// (https://no-color.org).
void print_error(std::string_view what);

}  // namespace braid::apps
