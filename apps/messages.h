#pragma once
// Errors, and warnings about settings that the machine cannot meet, on standard error.

#include <string_view>

#include "train/config/config.h"

namespace braid::apps {

/// Prints "braid: error: WHAT" on standard error; in red on a terminal with colours, unless NO_COLOR is set
/// (https://no-color.org).
void print_error(std::string_view what);

/// Warns on standard error if `auto` cannot select the GPU of the machine, and if `threads` or the loader's `workers`
/// exceed the cores that the process may use. Throws DeviceError if a GPU that is named does not compute what the CPU
/// does.
void warn_about(const SessionOptions& session, int workers = 0);
/// The same for the jobs of a run.
void warn_about(const RunConfig& config);

}  // namespace braid::apps
