#pragma once
// The best path that a PathNet run found for task B, as an ordinary run: a network of layers, with its weights.

#include "data/dataset.h"
#include "models/zoo/wired/pathnet.h"
#include "train/config/pathnet_config.h"

namespace braid {

/// The config of a network that computes what a PathNet does along a path for a task on these classes, whose last layer
/// has this name.
TrainConfig winner_config(const PathNetConfig& config, const models::Genotype& path, const std::string& last_layer,
                          const std::vector<int>& classes);

/// Writes the config of the path for task B and its weights in the net, which is in the session, into a folder inside
/// the run's, in place of those before. Throws Error if it cannot.
void save_winner(const std::filesystem::path& run, const PathNetConfig& config, const models::Genotype& path,
                 Session& session, const models::PathNet& net);

}  // namespace braid
