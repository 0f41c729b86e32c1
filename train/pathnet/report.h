#pragma once
// The outcome of a PathNet run as text, as JSON and as a picture.

#include <span>
#include <string>

#include "train/pathnet/run.h"

namespace braid {

/// One line about one seed.
std::string summary(const SeedRun& run);

/// Generations of each seed and task, their means, and how much faster task B was after task A than without.
std::string table(const PathNetConfig& config, std::span<const SeedRun> runs);
/// The same numbers and more, for programs.
std::string report_json(const PathNetConfig& config, std::span<const SeedRun> runs);
/// The best path and the last population of each seed and task.
std::string genotypes_json(const PathNetConfig& config, std::span<const SeedRun> runs);

/// An SVG after figures 1 and 4 of the PathNet paper, with a panel for each seed: the grid of modules, with the paths
/// of task A and of task B after it (train/pathnet/drawing.cpp).
std::string draw_paths(const PathNetConfig& config, std::span<const SeedRun> runs);

}  // namespace braid
