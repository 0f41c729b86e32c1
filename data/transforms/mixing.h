#pragma once
// MixUp (Zhang et al., 2018) and CutMix (Yun et al., 2019): images and targets of a batch mixed with those of the batch
// in reverse order, in one ratio per batch, as in timm.

#include "core/base/random.h"
#include "data/dataset.h"

namespace braid {

struct MixingOptions {
  /// The α of the ratio's distribution Beta(α, α); 0: never. With both, every batch takes one of the two at random.
  double mixup_alpha = 0, cutmix_alpha = 0;
  double probability = 1;  ///< that a batch is mixed
  bool any() const { return mixup_alpha > 0 || cutmix_alpha > 0; }
};

/// Adds the batch's targets, and mixes it with the probability of the options. The label of a mixed image is that of
/// its larger part.
void mix(const MixingOptions& options, Generator& random, int classes, Batch& batch);

}  // namespace braid
