#pragma once
// Measures the nodes of a config's training step.

#include "scheduler/profile.h"
#include "train/config.h"

namespace braid {

/// Trains on one batch, at every width that the scheduler may choose, so many steps each that are measured, after some
/// that warm up. Throws as Trainer does.
Profile profile_training(const TrainConfig& config, int runs);

}  // namespace braid
