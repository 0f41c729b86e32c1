#pragma once

#include <CLI/CLI.hpp>

namespace braid::apps {

/// What is wrong with the command line that the app could not parse, and where to read how it should be: two lines,
/// without the last line break.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace braid::apps
