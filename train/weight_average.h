#pragma once
// An exponential moving average of a model's weights, which is often more accurate than the weights themselves (Polyak
// and Juditsky, 1992; as timm's ModelEmaV3). It is part of the step, like an update. The centre of elastic averaging
// (Zhang, Choromanska and LeCun, 2015) is one, too: of the mean over ranks, to which it pulls their weights back.

#include <span>
#include <string_view>
#include <vector>

#include "autograd/tape.h"

namespace braid {

/// Use it from one thread at a time. The tensors must outlive it. The averages are released with it.
class WeightAverage {
 public:
  /// The name of an average is this and the name of its tensor.
  static constexpr std::string_view kPrefix = "average.";

  /// Averages parameters and states; integers are left out. The decay is in [0, 1); update n, counted from 0, uses
  /// min(decay, n / (9 + n)), so that the first averages do not remember the initial weights. Throws Error if it is out
  /// of range.
  WeightAverage(Context& context, std::vector<Parameter*> tensors, double decay);

  WeightAverage(const WeightAverage&) = delete;
  WeightAverage& operator=(const WeightAverage&) = delete;

  /// Records an update by the tensors as they are now in the current step; `updates` were recorded before.
  void record(std::int64_t updates);

  /// Sets the averages to the tensors, where the centre of elastic averaging begins. Not while a step is recorded.
  void start();
  /// Records a step of elastic averaging, equations 5 and 6 of the paper without the gradient. Over R ranks that train
  /// by themselves (ParallelOptions::average_every), the tensors of each move by (1 - decay) / R towards the averages,
  /// and the averages by 1 - decay towards the mean that the tensors had before. Expects a decay above 0.
  void record_elastic();

  /// The averages, in the order of the tensors.
  std::span<Parameter* const> averages() const { return averages_.all(); }
  std::span<Parameter* const> tensors() const { return tensors_; }
  /// Exchanges the values of the tensors and their averages: twice, around an evaluation. Waits for the running step.
  void exchange();

 private:
  OwnedTensors averages_;
  std::vector<Parameter*> tensors_;
  double decay_;
};

}  // namespace braid
