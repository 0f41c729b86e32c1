#pragma once
// The two cells of NASNet-A (Zoph et al., 2018, figure 4).

#include "models/layers/layers.h"

namespace braid::models {

/// How a cell converts the output of the cell before the last to its own filters.
enum class Previous {
  projected,  ///< it has the size of the last cell's: by a 1x1 convolution
  halved,     ///< it is twice as high and wide: by two 1x1 convolutions with stride 2, one of them shifted by a pixel
  raw,        ///< not at all: in the first cell
};

/// The channels that come in, and the filters of each branch.
struct CellShape {
  std::int64_t in;           ///< from the last cell
  std::int64_t previous_in;  ///< from the cell before it
  std::int64_t filters;
  Previous previous;
};

/// A normal cell keeps height and width, and has six times as many channels as filters. A reduction cell halves height
/// and width, and has four times as many.
enum class Cell { normal, reduction };

/// Five pairs of branches over two inputs, joined along channels.
class NasNetCell final : public Module {
 public:
  NasNetCell(Context& context, Cell kind, const CellShape& shape);
  using Module::operator();
  /// The outputs of the last two cells, [N,H,W,C] each, the earlier one perhaps of twice the size → [N,P,Q,channels()]
  Tensor operator()(const Tensor& last, const Tensor& before_last);
  Tensor forward(const Tensor& x) override { return (*this)(x, x); }
  std::int64_t channels() const { return (kind_ == Cell::normal ? 6 : 4) * filters_; }

 private:
  Cell kind_;
  std::int64_t filters_;
  Chain& project_;
  Module* adjust_previous_ = nullptr;
  Module *left0_, *right0_, *left1_ = nullptr, *right1_, *right2_ = nullptr, *left4_;
};

}  // namespace braid::models
