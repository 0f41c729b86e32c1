#pragma once
// Judging a model by a dataset.

#include <functional>
#include <string>

#include "data/loader.h"
#include "models/module.h"
#include "runtime/session.h"

namespace braid {

struct Evaluation {
  std::int64_t samples = 0;
  double loss = 0;            ///< mean cross entropy, without label smoothing
  double top1 = 0, top5 = 0;  ///< shares in [0,1]; with fewer than five classes top5 is 1
};

/// "test loss 0.2712, accuracy 90.12 %, top-5 99.71 %, 10000 images"
std::string to_string(const Evaluation& evaluation);

/// Runs the model in evaluation mode over one epoch of the loader, every sample counted once and equally; it computes
/// in `dtype`. The model is in the mode it was in afterwards. Stops early once `stop` says so, with the samples seen
/// until then. Throws Error if the loader has no batch, OutOfMemory if a batch does not fit into memory.
Evaluation evaluate(Session& session, Module& model, Loader& loader, DType dtype = DType::f32,
                    const std::function<bool()>& stop = {});

/// Plans that evaluation on batches of `batch_size` images, before there is anything to evaluate: evaluate() finds the
/// plan. Throws OutOfMemory if there is none within the memory limit.
void plan_evaluation(Session& session, Module& model, const Dataset& dataset, std::int64_t batch_size, DType dtype);

}  // namespace braid
