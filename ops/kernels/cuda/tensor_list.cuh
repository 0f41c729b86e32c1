#pragma once
// One launch over many tensors of different sizes. Their addresses are launch arguments; each tensor is cut into pieces
// of equal size, and a block takes one piece and finds its tensor by the piece's number.

#include <array>
#include <span>
#include <vector>

#include "ops/kernels/cuda/elements.cuh"

namespace braid::cuda {

/// kPointers addresses for each tensor.
template <int kPointers>
struct TensorList {
  static constexpr int kBytes = 3584;  // share of the 4 KiB of arguments of a launch
  static constexpr int kTensors = kBytes / static_cast<int>(kPointers * sizeof(void*) + sizeof(std::int64_t) + 4);

  void* address[kPointers][kTensors];
  std::int64_t size[kTensors];
  int end[kTensors];  // last-plus-one piece
  int count = 0;

  int pieces() const { return count == 0 ? 0 : end[count - 1]; }
  /// A block for each piece.
  LaunchShape launch_shape() const { return {.grid = static_cast<unsigned>(pieces()), .block = kThreads}; }

  /// Elements of a piece: several vectors of each thread.
  static constexpr int kPiece = 16 * kThreads;

  void add(const std::array<void*, kPointers>& addresses, std::int64_t elements) {
    BRAID_CHECK(elements < std::int64_t{kPiece} << 30, Error, "[optimizer] expected parameters of less than 2^42 ",
                "elements, got ", elements);
    for (std::size_t i = 0; i < kPointers; ++i) address[i][count] = addresses[i];
    size[count] = elements;
    end[count] = pieces() + static_cast<int>((elements + kPiece - 1) / kPiece);
    ++count;
  }
};

/// A piece of one tensor.
struct TensorPiece {
  int tensor;
  std::int64_t begin, end;

  template <int kPointers>
  __device__ TensorPiece(const TensorList<kPointers>& list, int piece) {
    int low = 0, high = list.count - 1;  // the first tensor that ends after the piece
    while (low < high) {
      const int middle = (low + high) / 2;
      if (piece < list.end[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    tensor = low;
    begin = std::int64_t{piece - (low == 0 ? 0 : list.end[low - 1])} * TensorList<kPointers>::kPiece;
    const std::int64_t size = list.size[low], stop = begin + TensorList<kPointers>::kPiece;
    end = stop < size ? stop : size;
  }
};

/// Calls f.operator()<kWidth>(first element) for the vectors of a piece and f.operator()<1>(element) for what is left,
/// each in one thread of the block.
template <int kWidth, class F>
__device__ void for_each_in_piece(const TensorPiece& piece, bool aligned, const F& f) {
  std::int64_t rest = piece.begin;
  if (aligned) {
    rest = piece.begin + (piece.end - piece.begin) / kWidth * kWidth;
    for (std::int64_t e = piece.begin + threadIdx.x * kWidth; e < rest; e += kThreads * kWidth) {
      f.template operator()<kWidth>(e);
    }
  }
  for (std::int64_t e = rest + threadIdx.x; e < piece.end; e += kThreads) f.template operator()<1>(e);
}

/// Calls launch_list(list) for lists that hold all tensors; add(list, i) adds tensor i.
template <int kPointers, class Add, class LaunchList>
void for_tensor_lists(std::size_t tensors, const Add& add, const LaunchList& launch_list) {
  for (std::size_t i = 0; i < tensors;) {
    TensorList<kPointers> list;
    while (i < tensors && list.count < TensorList<kPointers>::kTensors) add(list, i++);
    launch_list(list);
  }
}

/// Tensors of any floating types, all of which are reduced to one result per piece.
class ReducedTensors {
 public:
  /// The inputs from `first` on.
  ReducedTensors(std::span<const ValueDesc> inputs, std::size_t first) {
    for (std::size_t i = first; i < inputs.size(); ++i) {
      const auto& [dtype, shape] = inputs[i];
      auto group = std::ranges::find(groups_, dtype, &Group::dtype);
      if (group == groups_.end()) group = groups_.insert(group, {dtype, {}, {}});
      group->inputs.push_back(i);
      group->sizes.push_back(shape.size());
      pieces_ += (shape.size() + TensorList<1>::kPiece - 1) / TensorList<1>::kPiece;
    }
  }
  std::int64_t pieces() const { return pieces_; }

  /// Calls reduce.operator()<T>(list, number of its first piece) for lists that hold all tensors.
  template <class Inputs, class Reduce>
  void operator()(const Inputs& inputs, const Reduce& reduce) const {
    std::int64_t done = 0;
    for (const Group& group : groups_) {
      const auto add = [&](TensorList<1>& list, std::size_t i) {
        list.add(std::array{inputs[group.inputs[i]]}, group.sizes[i]);
      };
      for_any_float(group.dtype, [&]<class T>() {
        for_tensor_lists<1>(group.sizes.size(), add, [&](const auto& list) {
          reduce.template operator()<T>(list, done);
          done += list.pieces();
        });
      });
    }
  }

 private:
  struct Group {
    DType dtype;
    std::vector<std::size_t> inputs;
    std::vector<std::int64_t> sizes;
  };
  std::vector<Group> groups_;
  std::int64_t pieces_ = 0;
};

}  // namespace braid::cuda
