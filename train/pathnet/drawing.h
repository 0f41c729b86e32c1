#pragma once
// A picture of the final paths, after figures 1 and 4 of the PathNet paper.

#include <span>
#include <string>

#include "train/pathnet/run.h"

namespace braid {

/// An SVG with a panel for each seed: the grid of modules, with the paths of task A and of task B after it.
std::string draw_paths(const PathNetConfig& config, std::span<const SeedRun> runs);

}  // namespace braid
