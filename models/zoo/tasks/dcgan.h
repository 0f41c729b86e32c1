#pragma once
// DCGAN (Radford et al., 2016): a generator that makes images from noise by transposed convolutions, and a
// discriminator that tells them from real ones. Weights start normal with deviation 0.02, as in the paper.

#include "models/layers/layers.h"

namespace braid::models {

struct DcganOptions {
  std::int64_t noise = 100;      ///< numbers that an image is made of
  std::int64_t channels = 3;     ///< channels of an image
  std::int64_t image_size = 64;  ///< 4, 5, 6 or 7 times a power of two, at least 8
  std::int64_t width = 64;       ///< channels at half the image's size
};

/// A convolution, transposed in the generator, and what follows it.
struct DcganStage {
  Module* conv;
  BatchNormLayer* norm;  ///< null in the last stage, and in the discriminator's first
};

/// noise [N,noise] → images [N,size,size,channels] in (−1, 1)
class DcganGenerator final : public Module {
 public:
  using Options = DcganOptions;
  explicit DcganGenerator(Context& context, const DcganOptions& options = {});
  Tensor forward(const Tensor& noise) override;

 private:
  DcganOptions options_;
  std::vector<DcganStage> stages_;
};

/// images [N,size,size,channels] → logits [N,1]: how real each looks
class DcganDiscriminator final : public Module {
 public:
  using Options = DcganOptions;
  explicit DcganDiscriminator(Context& context, const DcganOptions& options = {});
  Tensor forward(const Tensor& images) override;

 private:
  DcganOptions options_;
  std::vector<DcganStage> stages_;
};

/// Both, trained together: in each step the discriminator learns to tell a batch of images from as many generated ones,
/// and the generator to be taken for real.
class Dcgan final : public Module {
 public:
  using Options = DcganOptions;
  explicit Dcgan(Context& context, const DcganOptions& options = {});
  /// images [N,size,size,channels] → logits [N,2], of being generated and of being real
  Tensor forward(const Tensor& images) override;
  /// The labels do not matter. The accuracy is the discriminator's.
  TrainingStep training_step(const Tensor& images, const Tensor& labels, const Tensor& truth,
                             const ClassLoss& loss = {}) override;
  /// Images [count,size,size,channels] of noise that the random state in force draws.
  Tensor generate(std::int64_t count, DType dtype = DType::f32);

 private:
  DcganOptions options_;
  DcganGenerator& generator_;
  DcganDiscriminator& discriminator_;
};

}  // namespace braid::models
