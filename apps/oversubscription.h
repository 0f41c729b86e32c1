#pragma once
// Warnings about settings that ask for more threads than there are cores.

#include "train/config/config.h"

namespace braid::apps {

/// Warns on standard error if `threads` or the loader's `workers` exceed the cores that the process may use.
void warn_of_oversubscription(const SessionOptions& session, int workers = 0);
/// The same for the jobs of a run.
void warn_of_oversubscription(const RunConfig& config);

}  // namespace braid::apps
