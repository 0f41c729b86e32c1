// Both directions work on blocks that stay in the L1 cache: a block of the sum is read and written once however many
// terms it has, and so is a block of dy. Outputs may lie on inputs, so a block is written after it was read.

#include "ops/elementwise/weighted_sum.h"

#include "ops/common/arithmetic.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cpu {

namespace {

constexpr std::int64_t kBlock = 1024;

template <class T>
T gate(const T* weights, std::size_t i) {
  return static_cast<T>(arithmetic::sigmoid(static_cast<double>(weights[i])));
}

/// Calls body(first element, size) for the blocks of [begin, end).
template <class Body>
void for_each_block(std::int64_t begin, std::int64_t end, const Body& body) {
  for (; begin < end; begin += kBlock) body(begin, std::min(kBlock, end - begin));
}

template <class T>
BRAID_TARGET_CLONES T dot(std::int64_t size, const T* a, const T* b) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

/// One block of dy: writes its share of every dxᵢ and adds its share of Σ dy·xᵢ to products[i].
template <class T>
void backward_block(std::span<void* const> inputs, std::span<void* const> outputs, std::int64_t begin,
                    std::int64_t size, double* products) {
  T dy[kBlock];
  std::copy_n(at<const T>(inputs, 0) + begin, size, dy);
  const std::size_t terms = inputs.size() - 2;
  for (std::size_t i = 0; i < terms; ++i) {
    products[i] += static_cast<double>(dot(size, dy, at<const T>(inputs, i + 2) + begin));
  }
  for (std::size_t i = 0; i < terms; ++i) {
    const T factor = gate(at<const T>(inputs, 1), i);
    T* dx = at<T>(outputs, i + 1) + begin;
    for_each_element(0, size, [=, g = &dy[0]](std::int64_t e) { dx[e] = factor * g[e]; });
  }
}

}  // namespace

Implementations make_weighted_sum(const KernelSpec& spec) {
  return float_kernel(
      spec, [size = spec.outputs[0].shape.size(), width = spec.width]<class T>(auto inputs, auto outputs) {
        const T* weights = at<const T>(inputs, 0);
        T* y = at<T>(outputs, 0);
        parallel_for(width, size, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
          for_each_block(begin, end, [&](std::int64_t first, std::int64_t count) {
            T sum[kBlock] = {};
            for (std::size_t i = 1; i < inputs.size(); ++i) {
              const T* x = at<const T>(inputs, i) + first;
              const T factor = gate(weights, i - 1);
              for_each_element(0, count, [=, out = &sum[0]](std::int64_t e) { out[e] += factor * x[e]; });
            }
            std::copy_n(sum, count, y + first);
          });
        });
      });
}

Implementations make_weighted_sum_backward(const KernelSpec& spec) {
  const std::int64_t size = spec.inputs[0].shape.size(), pieces = divide_up(size, kElementGrain);
  const std::size_t terms = spec.inputs.size() - 2;
  const std::size_t bytes = static_cast<std::size_t>(pieces) * terms * sizeof(double);
  return float_kernel(spec, bytes, [=, width = spec.width]<class T>(auto inputs, auto outputs, void* workspace) {
    double* products = static_cast<double*>(workspace);  // products of every piece
    const auto of_piece = [=](std::int64_t piece) { return products + static_cast<std::size_t>(piece) * terms; };
    parallel_for(width, size, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      double* const sums = of_piece(begin / kElementGrain);
      std::fill_n(sums, terms, 0.0);
      for_each_block(begin, end, [&](std::int64_t first, std::int64_t count) {
        backward_block<T>(inputs, outputs, first, count, sums);
      });
    });
    T* dweights = at<T>(outputs, 0);
    for (std::size_t i = 0; i < terms; ++i) {
      double product = 0;
      for (std::int64_t piece = 0; piece < pieces; ++piece) product += of_piece(piece)[i];
      const double s = arithmetic::sigmoid(static_cast<double>(at<const T>(inputs, 1)[i]));
      dweights[i] = static_cast<T>(s * (1 - s) * product);
    }
  });
}

}  // namespace braid::cpu
