#pragma once
// What image classifiers have in common: their stem, their width, and the images that they accept.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "autograd/tensor.h"

namespace braid::models {

/// The stem of a network for ImageNet. Each network's header describes its forms.
enum class Stem {
  image,        ///< as published, for images of about 224x224
  small_image,  ///< without the first reductions of height and width, for images of about 32x32
};

/// The options that most networks have.
struct NetworkOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 3;  ///< channels of the input image
  Stem stem = Stem::small_image;
  double width = 1;  ///< multiplies the channels of all layers
};

/// The channels of a network made `width` times as wide: at least 1. Throws Error if width is not positive.
std::int64_t scaled(std::int64_t channels, double width);

/// The multiple of 8 nearest to channels·width, at least 8 and at least 90 % of it: the widths of mobile networks.
std::int64_t divisible(std::int64_t channels, double width);

/// Throws ShapeError if x is not [N,H,W,channels] with H and W of at least `smallest`.
void check_images(std::string_view model, const Tensor& x, std::int64_t channels, std::int64_t smallest);
/// The first step of a chain, which does that.
std::function<Tensor(const Tensor&)> checked_images(std::string model, std::int64_t channels, std::int64_t smallest);

}  // namespace braid::models
