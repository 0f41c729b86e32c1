#pragma once
// Sums of many tensors of one shape. Their addresses are launch arguments. If there are more than a launch takes,
// further launches add the rest, and until the last one the sum is in the workspace: the output may lie on an input
// that is yet to be read.

#include "ops/kernels/cuda/elements.cuh"

namespace braid::cuda {

template <class T>
struct TermTable {
  static constexpr std::size_t kTerms = 256;  // 2 of the 4 KiB that a launch may take along

  const T* x[kTerms];
  int count = 0;
  const Compute<T>* before = nullptr;  ///< the sum that an earlier launch has left, or null
  Compute<T>* after = nullptr;         ///< where to leave the sum for a later launch, or null

  static std::size_t workspace_bytes(std::size_t terms, std::int64_t size) {
    return terms > kTerms ? static_cast<std::size_t>(size) * sizeof(Compute<T>) : 0;
  }

  template <int kWidth>
  bool is_aligned() const {
    return std::all_of(x, x + count, [](const T* address) { return cuda::is_aligned<kWidth>(address); });
  }

  /// Adds term(i, first) of every input i to what earlier launches have left, and writes the sum.
  template <int kWidth, class Term>
  __device__ void add(std::int64_t first, T* y, const Term& term) const {
    Lanes<Compute<T>, kWidth> sum = before != nullptr ? load<kWidth>(before + first) : term(0);
#pragma unroll 2
    for (int i = before != nullptr ? 0 : 1; i < count; ++i) {
      const Lanes<Compute<T>, kWidth> lanes = term(i);
      for_lanes<kWidth>([&](int lane) { sum[lane] += lanes[lane]; });
    }
    if (after != nullptr) {
      store<kWidth>(after + first, sum);
    } else {
      store<kWidth>(y + first, sum);
    }
  }
};

/// Calls launch_terms(table, number of its first term) for tables that hold all the addresses.
template <class T, class LaunchTerms>
void for_term_tables(std::span<void* const> addresses, void* workspace, const LaunchTerms& launch_terms) {
  for (std::size_t first = 0; first < addresses.size(); first += TermTable<T>::kTerms) {
    const std::size_t count = std::min(TermTable<T>::kTerms, addresses.size() - first);
    TermTable<T> table;
    for (std::size_t i = 0; i < count; ++i) table.x[i] = at<const T>(addresses, first + i);
    table.count = static_cast<int>(count);
    if (first > 0) table.before = static_cast<const Compute<T>*>(workspace);
    if (first + count < addresses.size()) table.after = static_cast<Compute<T>*>(workspace);
    launch_terms(table, first);
  }
}

}  // namespace braid::cuda
