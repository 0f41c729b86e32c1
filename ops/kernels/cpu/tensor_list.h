#pragma once
// The tensors of one node as one long array, so that pieces of parallel work have equal size whether the node has one
// large tensor or many small ones.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/kernels.h"

namespace braid::cpu {

/// Which of tensors of f32 and f64 are of f64.
inline std::vector<bool> are_f64(std::span<const ValueDesc> tensors) {
  std::vector<bool> are;
  for (const ValueDesc& tensor : tensors) are.push_back(tensor.dtype == DType::f64);
  return are;
}

/// Every stride-th input of a node.
class TensorList {
 public:
  /// The tensors are the inputs first, first + stride, …. Throws Error if they are of several dtypes, unless they may
  /// be.
  TensorList(std::span<const ValueDesc> inputs, std::size_t first, std::size_t stride, bool may_be_mixed = false) {
    for (std::size_t i = first; i < inputs.size(); i += stride) {
      BRAID_CHECK(may_be_mixed || inputs[i].dtype == inputs[first].dtype, Error,
                  "[optimizer] expected parameters of one dtype in a node, got ", inputs[first].dtype, " and ",
                  inputs[i].dtype);
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + inputs[i].shape.size());
    }
  }

  std::int64_t size(std::size_t tensor) const { return ends_[tensor] - (tensor == 0 ? 0 : ends_[tensor - 1]); }

  /// Calls update(tensor, begin, end) for the elements of every tensor, on up to `width` threads.
  template <class Update>
  void for_each_piece(int width, const Update& update) const {
    parallel_for(width, ends_.back(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      auto i = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
      while (begin < end) {
        const std::int64_t start = i == 0 ? 0 : ends_[i - 1], stop = std::min(end, ends_[i]);
        if (begin < stop) update(i, begin - start, stop - start);
        begin = stop;
        ++i;
      }
    });
  }

 private:
  std::vector<std::int64_t> ends_;
};

}  // namespace braid::cpu
