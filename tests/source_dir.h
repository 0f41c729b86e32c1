#pragma once
#include <string>

namespace braid::testing {

/// The folder of the sources, whose files some tests read.
std::string source_dir();

}  // namespace braid::testing
