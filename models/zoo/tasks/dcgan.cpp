#include "models/zoo/tasks/dcgan.h"

#include <algorithm>

namespace braid::models {

namespace {

struct Sizes {
  std::int64_t smallest;  // 4 to 7 pixels, which is what noise becomes at first
  int inner;              // stages between that and half the image's size
};

Sizes sizes_of(const DcganOptions& options) {
  Sizes sizes{options.image_size, -1};
  for (; sizes.smallest > 7 && sizes.smallest % 2 == 0; sizes.smallest /= 2) ++sizes.inner;
  BRAID_CHECK(sizes.inner >= 0 && sizes.smallest <= 7, Error,
              "[dcgan] expected an image_size of 4, 5, 6 or 7 times a power of two, at least 8, got ",
              options.image_size);
  return sizes;
}

/// Initialises weights as in the paper: normal with deviation 0.02, around 1 for scales of batch norms.
void initialise(const Module& model) {
  for (Parameter* parameter : model.parameters()) {
    if (parameter->shape().rank() == 4) {
      normal(model.context(), *parameter, 0.02f);
    } else if (parameter->name().ends_with(".weight")) {
      normal(model.context(), *parameter, 0.02f, 1);
    }
  }
}

}  // namespace

DcganGenerator::DcganGenerator(Context& context, const DcganOptions& options) : Module(context), options_(options) {
  const auto [smallest, inner] = sizes_of(options);
  std::int64_t in = options.noise, out = options.width << inner;
  for (int i = 0; i <= inner + 1; ++i, in = out, out /= 2) {
    const bool last = i == inner + 1;
    if (last) out = options.channels;
    const ConvTranspose2dOptions shape =
        i == 0 ? ConvTranspose2dOptions{} : ConvTranspose2dOptions{.stride = 2, .padding = 1};
    stages_.push_back({&add<ConvTransposeLayer>(message("conv", i), in, out, i == 0 ? smallest : 4, shape),
                       last ? nullptr : &add<BatchNormLayer>(message("bn", i), out, Activation::relu)});
  }
  initialise(*this);
}

Tensor DcganGenerator::forward(const Tensor& noise) {
  BRAID_CHECK(noise.shape().rank() == 2 && noise.shape()[1] == options_.noise, ShapeError, "[dcgan] expected noise [N,",
              options_.noise, "], got ", noise.shape());
  Tensor y = reshape(noise, {noise.shape()[0], 1, 1, options_.noise});
  for (const auto& [conv, norm] : stages_) y = norm == nullptr ? tanh((*conv)(y)) : (*norm)((*conv)(y));
  return y;
}

DcganDiscriminator::DcganDiscriminator(Context& context, const DcganOptions& options)
    : Module(context), options_(options) {
  const auto [smallest, inner] = sizes_of(options);
  std::int64_t in = options.channels, out = options.width;
  for (int i = 0; i <= inner + 1; ++i, in = out, out *= 2) {
    const bool last = i == inner + 1;
    const Conv2dOptions shape = last ? Conv2dOptions{} : Conv2dOptions{.stride = 2, .padding = 1};
    stages_.push_back({&add<ConvLayer>(message("conv", i), in, last ? 1 : out, last ? smallest : 4, shape),
                       i == 0 || last ? nullptr : &add<BatchNormLayer>(message("bn", i), out)});
  }
  initialise(*this);
}

Tensor DcganDiscriminator::forward(const Tensor& images) {
  check_images("dcgan", images, options_.channels, options_.image_size);
  const std::int64_t size = options_.image_size;
  BRAID_CHECK(images.shape()[1] == size && images.shape()[2] == size, ShapeError, "[dcgan] expected images of ", size,
              'x', size, " pixels, got ", images.shape()[1], 'x', images.shape()[2]);
  Tensor y = images;
  for (const auto& [conv, norm] : stages_) {
    y = (*conv)(y);
    if (norm != nullptr) y = (*norm)(y);
    if (conv != stages_.back().conv) y = leaky_relu(y, 0.2);
  }
  return flatten(y);
}

Dcgan::Dcgan(Context& context, const DcganOptions& options)
    : Module(context),
      options_(options),
      generator_(add<DcganGenerator>("generator", options)),
      discriminator_(add<DcganDiscriminator>("discriminator", options)) {}

Tensor Dcgan::forward(const Tensor& images) {
  const Tensor real = discriminator_(images);  // the difference of the two logits
  return concat({real * -0.5, real * 0.5});
}

TrainingStep Dcgan::training_step(const Tensor& images, const Tensor&, const Tensor&, const ClassLoss& loss) {
  const std::int64_t count = images.shape()[0];
  const Tensor generated = generate(count, images.dtype());
  const Tensor of_real = forward(images), of_generated = forward(generated);
  Array zeros(DType::i32, {count}), ones(DType::i32, {count}), labels(DType::i32, {2 * count});
  std::ranges::fill(ones.as<std::int32_t>(), 1);
  std::ranges::fill_n(labels.as<std::int32_t>().begin(), count, 1);
  const Tensor is_generated = zeros, is_real = ones;
  const Tensor told =
      sum({cross_entropy(of_real, is_real, loss.label_smoothing), cross_entropy(of_generated, is_generated)});
  const Tensor fooled = cross_entropy(of_generated, is_real);
  return {{{told, discriminator_.parameters()}, {fooled, generator_.parameters()}},
          concat({of_real, of_generated}, 0),
          labels};
}

Tensor Dcgan::generate(std::int64_t count, DType dtype) {
  constexpr std::uint64_t kNoise = std::uint64_t{1} << 61;  // selects streams of the state's seed
  const RandomState& state = context().random();
  Generator random(state.seed, kNoise | static_cast<std::uint32_t>(state.step));
  Array noise(DType::f32, {count, options_.noise});
  for (float& value : noise.as<float>()) value = random.normal();
  return generator_(cast(noise, dtype));
}

}  // namespace braid::models
