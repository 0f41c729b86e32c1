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

/// Five pairs of branches over two inputs, joined along channels.
class NasNetCell : public Module {
 public:
  NasNetCell(Context& context, const CellShape& shape);
  using Module::operator();
  /// x [N,H,W,in], previous likewise or of twice the size → [N,P,Q,channels()]
  Tensor operator()(const Tensor& x, const Tensor& previous);
  Tensor forward(const Tensor& x) override { return (*this)(x, x); }
  virtual std::int64_t channels() const = 0;

 protected:
  /// Both [N,H,W,filters], but for a raw previous.
  virtual Tensor combine(const Tensor& x, const Tensor& previous) = 0;

 private:
  Module* project_;
  Module* adjust_previous_ = nullptr;
};

/// Keeps height and width; six times as many channels as filters.
class NormalCell final : public NasNetCell {
 public:
  NormalCell(Context& context, const CellShape& shape);
  std::int64_t channels() const override { return 6 * filters_; }

 private:
  Tensor combine(const Tensor& x, const Tensor& previous) override;

  std::int64_t filters_;
  Module& left0_;
  Module& right0_;
  Module& left1_;
  Module& right1_;
  Module& left4_;
};

/// Halves height and width; four times as many channels as filters.
class ReductionCell final : public NasNetCell {
 public:
  ReductionCell(Context& context, const CellShape& shape);
  std::int64_t channels() const override { return 4 * filters_; }

 private:
  Tensor combine(const Tensor& x, const Tensor& previous) override;

  std::int64_t filters_;
  Module& left0_;
  Module& right0_;
  Module& right1_;
  Module& right2_;
  Module& left4_;
};

}  // namespace braid::models
