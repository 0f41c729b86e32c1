#pragma once
// Losses and measures of how good predictions are.

#include "autograd/tape.h"

namespace braid {

/// The shape of labels for these logits: all axes but the last.
Shape label_shape(const Shape& logits);
/// logits [N,...,K], labels i32 [N,...] → scalar, the mean over the batch. Logits of f16 or bf16 are cast to f32 first.
/// Takes probabilities of the classes, f32 [N,...,K], instead of labels.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing = 0);
/// How a loss combines the losses of its elements; batch_mean: their sum divided by the first extent.
enum class LossReduction { mean, sum, none, batch_mean };

struct CrossEntropyOptions {
  double label_smoothing = 0;
  Tensor weight = {};                ///< of classes, [K]; undefined: all 1
  std::int64_t ignore_index = -100;  ///< a label that counts for nothing
  LossReduction reduction = LossReduction::mean;
};
/// The same with torch.nn.CrossEntropyLoss's options; none: losses [N,...]. Losses are averaged with
/// the weights of their labels.
/// Probabilities get a gradient. Of several nodes, and slower.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options);
/// logits [N,...,K], labels i32 [N,...] → scalar f32 in [0,1]: the share of labels among the k largest logits, which
/// are cast likewise
Tensor accuracy(const Tensor& logits, const Tensor& labels, std::int64_t k = 1);

// Losses of two tensors of one shape. f16 and bf16 are cast to f32 first.

/// (x − target)²
Tensor mse_loss(const Tensor& x, const Tensor& target, LossReduction reduction = LossReduction::mean);
/// |x − target|
Tensor l1_loss(const Tensor& x, const Tensor& target, LossReduction reduction = LossReduction::mean);
/// ½(x − target)², beyond a distance of delta a line of this slope
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1,
                  LossReduction reduction = LossReduction::mean);
/// huber_loss with beta as its delta, divided by beta; l1_loss for a beta of 0
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                      LossReduction reduction = LossReduction::mean);
/// target·(log target − x): the divergence of eˣ from the target's distribution. The target is given as logarithms if
/// log_target is set.
Tensor kl_div(const Tensor& x, const Tensor& target, LossReduction reduction = LossReduction::mean,
              bool log_target = false);
/// Binary cross entropy times (1 − p)^gamma, p being the probability of the truth (Lin et al., 2017), and alpha where
/// the target is 1, 1 − alpha where it is 0; a negative alpha weighs neither. As in torchvision.
Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target, double alpha = 0.25, double gamma = 2,
                          LossReduction reduction = LossReduction::none);
/// −p·target·log σ(x) − (1 − target)·log(1 − σ(x)), which overflows nowhere. The weight p of positives is 1 unless it
/// is given: a tensor that broadcasts to the logits.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        LossReduction reduction = LossReduction::mean,
                                        const Tensor& positive_weight = {});

}  // namespace braid
