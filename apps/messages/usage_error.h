#pragma once

#include <CLI/CLI.hpp>

namespace braid::apps {

/// Two lines that explain why the app could not parse the command line and name the help, without the last line break.
std::string usage_error(const CLI::App& app, const std::exception& error);

}  // namespace braid::apps
