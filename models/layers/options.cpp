#include "models/layers/options.h"

#include <algorithm>
#include <cmath>

namespace braid::models {

std::int64_t scaled(std::int64_t channels, double width) {
  BRAID_CHECK(width > 0, Error, "[model] expected a width above 0, got ", width);
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(channels) * width));
}

std::int64_t divisible(std::int64_t channels, double width) {
  const double exact = static_cast<double>(channels) * width;
  const std::int64_t nearest = std::max<std::int64_t>(8, static_cast<std::int64_t>(exact + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * exact ? nearest + 8 : nearest;
}

void check_images(std::string_view model, const Tensor& x, std::int64_t channels, std::int64_t smallest) {
  const Shape& shape = x.shape();
  BRAID_CHECK(shape.rank() == 4 && shape[3] == channels, ShapeError, '[', model, "] expected images [N,H,W,", channels,
              "], got ", shape);
  BRAID_CHECK(shape[1] >= smallest && shape[2] >= smallest, ShapeError, '[', model, "] expected images of at least ",
              smallest, 'x', smallest, " pixels, got ", shape[1], 'x', shape[2]);
}

std::function<Tensor(const Tensor&)> checked_images(std::string model, std::int64_t channels, std::int64_t smallest) {
  return [=](const Tensor& x) {
    check_images(model, x, channels, smallest);
    return x;
  };
}

}  // namespace braid::models
