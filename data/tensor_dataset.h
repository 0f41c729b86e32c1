#pragma once
// A dataset of tensors in memory: sample i is row i of each.

#include <vector>

#include "data/dataset.h"

namespace braid {

class TensorDataset : public Dataset {
 public:
  /// Makes a dataset, for example TensorDataset({x, y}) of x [N,…] and y [N,…]. Throws ShapeError unless all have the
  /// same first extent.
  explicit TensorDataset(std::vector<Array> tensors);

  std::int64_t size() const override { return tensors_[0].shape()[0]; }
  Sample sample(std::int64_t index, Generator& random) const override;
  const std::vector<Array>& tensors() const { return tensors_; }

 private:
  std::vector<Array> tensors_;
};

}  // namespace braid
