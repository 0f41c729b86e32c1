#include "models/zoo/wired/nasnet.h"

#include "models/zoo/wired/nasnet_cells.h"

namespace braid::models {

namespace {

constexpr std::int64_t kFilters = 44;  // filters of the first stage, 1/24 of the last cell's channels
constexpr int kNasNetStages = 3;
constexpr int kCells = 4;  // normal cells in a stage

}  // namespace

NasNetAMobile::NasNetAMobile(Context& context, const NasNetOptions& options) : Module(context), options_(options) {
  const bool large = options.stem == Stem::image;
  // The channels of the last two outputs, and whether the last cell halved the image.
  std::int64_t in = scaled(large ? 32 : 3 * kFilters, options.width), previous_in = in;
  Previous previous = large ? Previous::raw : Previous::projected;
  const auto add_cell = [&](Cell kind, const std::string& name, std::int64_t filters) {
    const CellShape shape{.in = in, .previous_in = previous_in, .filters = filters, .previous = previous};
    cells_.push_back(&add<NasNetCell>(name, kind, shape));
    previous_in = std::exchange(in, cells_.back()->channels());
    previous = kind == Cell::normal ? Previous::projected : Previous::halved;
  };

  stem_ = &add<ConvNormLayer>("conv0", options.channels, in, 3,
                              Conv2dOptions{.stride = large ? 2 : 1, .padding = large ? 0 : 1},
                              NormOptions{.activation = Activation::none, .epsilon = 1e-3});
  if (large) {
    add_cell(Cell::reduction, "cell_stem_0", scaled(kFilters / 4, options.width));
    add_cell(Cell::reduction, "cell_stem_1", scaled(kFilters / 2, options.width));
  }
  for (int stage = 0; stage < kNasNetStages; ++stage) {
    const std::int64_t filters = scaled(kFilters << stage, options.width);
    if (stage > 0) add_cell(Cell::reduction, message("reduction_cell_", stage - 1), filters);
    // The port counts as if a reduction were two cells.
    for (int i = 0; i < kCells; ++i) add_cell(Cell::normal, message("cell_", stage * (kCells + 2) + i), filters);
  }
  dropout_ = &add<DropoutLayer>("dropout", 0.5);
  classifier_ = &add<LinearLayer>("last_linear", in, options.classes);
}

Tensor NasNetAMobile::forward(const Tensor& x) {
  check_images("nasnet_a_mobile", x, options_.channels, options_.stem == Stem::image ? 3 : 1);
  Tensor y = (*stem_)(x), previous = y;
  for (NasNetCell* cell : cells_) {
    const Tensor next = (*cell)(y, previous);
    previous = std::exchange(y, next);
  }
  return (*classifier_)((*dropout_)(global_avg_pool(relu(y))));
}

}  // namespace braid::models
