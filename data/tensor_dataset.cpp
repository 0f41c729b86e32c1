#include "data/tensor_dataset.h"

#include <cstring>

namespace braid {

TensorDataset::TensorDataset(std::vector<Array> tensors) : tensors_(std::move(tensors)) {
  BRAID_CHECK(!tensors_.empty(), ShapeError, "[tensor_dataset] expected at least one tensor");
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Shape& shape = tensors_[i].shape();
    BRAID_CHECK(tensors_[i].data() != nullptr && shape.rank() >= 1, ShapeError,
                "[tensor_dataset] expected rows, tensor ", i, " has shape ", shape);
    BRAID_CHECK(shape[0] == size(), ShapeError, "[tensor_dataset] tensor ", i, " has ", shape[0],
                " rows, tensor 0 has ", size());
  }
}

Sample TensorDataset::sample(std::int64_t index, Generator&) const {
  check_index(index);
  Sample sample;
  for (const Array& tensor : tensors_) {
    Array& row = sample.emplace_back(tensor.dtype(), Shape(tensor.shape().extents().subspan(1)));
    const std::size_t bytes = row.bytes();
    if (bytes > 0) std::memcpy(row.data(), tensor.data() + static_cast<std::size_t>(index) * bytes, bytes);
  }
  return sample;
}

}  // namespace braid
