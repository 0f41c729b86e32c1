#pragma once
// Evaluates a model on a dataset.

#include <functional>
#include <string>

#include "data/loader/loader.h"
#include "models/inference.h"
#include "runtime/session.h"

namespace braid {

struct Evaluation {
  std::int64_t samples = 0, classes = 0;
  double loss = 0;            ///< mean cross entropy, without label smoothing
  double top1 = 0, top5 = 0;  ///< shares of images, or of pixels of masks, in [0,1]; with under five classes top5 is 1
};

/// "loss 0.2712, accuracy 90.12 %, 10,000 images"; of more than ten classes with the top-5 accuracy, too.
std::string to_string(const Evaluation& evaluation);
/// The same in fewer words and digits: "loss 0.271 acc 90.1 %".
std::string short_text(const Evaluation& evaluation);

/// Prepares the model again, and runs it over one epoch of the loader, in `dtype`; every sample counts once and
/// equally. Stops early once `stop` returns true, with the result of the samples seen so far. Throws
/// Error if the loader has no batch, OutOfMemory if a batch does not fit into memory.
Evaluation evaluate(Session& session, Inference& model, Loader& loader, DType dtype = DType::f32,
                    const std::function<bool()>& stop = {});

/// Plans this evaluation for batches of `batch_size` images ahead of time; evaluate() then finds the plan. Throws
/// OutOfMemory if no plan fits the memory limit.
void plan_evaluation(Session& session, Inference& model, const ImageDataset& dataset, std::int64_t batch_size,
                     DType dtype);

}  // namespace braid
