#pragma once
// A training step of a config, as planned and as measured.

#include "train/config/config.h"
#include "train/report/plan/plan_view.h"

namespace braid {

/// Trains new models on one batch, until the plan is chosen and caches are warm, and measures the next step: one of
/// every job. Throws the same errors as Trainer.
scheduler::PlanView measured_step(const RunConfig& config);

}  // namespace braid
