// Weights are on the device, so every block computes its gates first.

#include "ops/common/arithmetic.h"
#include "ops/elementwise/cuda/elementwise.cuh"
#include "ops/elementwise/cuda/terms.cuh"
#include "ops/elementwise/weighted_sum.h"
#include "ops/kernels/cuda/block_reduce.cuh"

namespace braid::cuda {

namespace {

/// gates[i] = sigmoid(weights[i]), by all threads of the block.
template <class T>
__device__ void compute_gates(const T* weights, int count, Compute<T>* gates) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    gates[i] = static_cast<Compute<T>>(arithmetic::sigmoid(static_cast<double>(widen(weights[i]))));
  }
  __syncthreads();
}

template <int kWidth, class T>
__global__ void __launch_bounds__(kThreads)
    weighted_sum_kernel(std::int64_t size, const T* weights, const __grid_constant__ TermTable<T> terms, T* y) {
  __shared__ Compute<T> gates[TermTable<T>::kTerms];
  compute_gates(weights, terms.count, gates);
  for_each_in_grid<kWidth>(size, [&]<int kLanes>(std::int64_t first) {
    terms.template add<kLanes>(first, y, [&](int i) {
      auto lanes = load<kLanes>(terms.x[i] + first);
      for_lanes<kLanes>([&](int lane) { lanes[lane] *= gates[i]; });
      return lanes;
    });
  });
}

template <class T>
struct GradientTable {
  static constexpr std::size_t kTerms = 128;
  const T* x[kTerms];
  T* dx[kTerms];
  int count = 0;
};

/// Vectors of dy that a thread holds while it goes through the inputs, and what a block holds with them.
template <int kWidth>
constexpr int kHeld = std::min(4, 16 / kWidth);
template <int kWidth>
constexpr int kTile = kThreads* kHeld<kWidth>* kWidth;

/// dxᵢ = gateᵢ·dy, and sums[i][block] = the block's share of Σ dy·xᵢ. dy is read once and only then overwritten, so a
/// dx may lie on it.
template <int kWidth, class T>
__global__ void __launch_bounds__(kThreads, 4)
    weighted_sum_backward_kernel(std::int64_t size, const T* dy, const T* weights,
                                 const __grid_constant__ GradientTable<T> terms, double* sums) {
  constexpr int kVectors = kHeld<kWidth>;
  constexpr std::int64_t kStep = kTile<kWidth>;
  __shared__ Compute<T> gates[GradientTable<T>::kTerms];
  __shared__ double products[GradientTable<T>::kTerms];  // thread 0's products
  compute_gates(weights, terms.count, gates);
  if (threadIdx.x == 0) {
    for (int i = 0; i < terms.count; ++i) products[i] = 0;
  }
  for (std::int64_t tile = blockIdx.x * kStep; tile < size; tile += gridDim.x * kStep) {
    const auto element = [&](int v) { return tile + (v * kThreads + static_cast<int>(threadIdx.x)) * kWidth; };
    Lanes<Compute<T>, kWidth> held[kVectors] = {};
    for_lanes<kVectors>([&](int v) {
      if (element(v) < size) held[v] = load<kWidth>(dy + element(v));
    });
#pragma unroll 1
    for (int i = 0; i < terms.count; ++i) {
      Lanes<Compute<T>, kWidth> x[kVectors] = {};
      for_lanes<kVectors>([&](int v) {
        if (element(v) < size) x[v] = load<kWidth>(terms.x[i] + element(v));
      });
      Compute<T> product = 0;
      for_lanes<kVectors>([&](int v) {
        Lanes<Compute<T>, kWidth> dx;
        for_lanes<kWidth>([&](int lane) {
          product += held[v][lane] * x[v][lane];
          dx[lane] = gates[i] * held[v][lane];
        });
        if (element(v) < size) store<kWidth>(terms.dx[i] + element(v), dx);
      });
      product = block_sum<kThreads>(product);
      if (threadIdx.x == 0) products[i] += static_cast<double>(product);
    }
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < terms.count; ++i) sums[std::int64_t{i} * gridDim.x + blockIdx.x] = products[i];
  }
}

/// A block for each weight: dweight = s·(1 − s)·Σ dy·x, where s is its sigmoid.
template <class T>
__global__ void __launch_bounds__(kThreads)
    weight_gradient_kernel(int blocks, const double* sums, const T* weights, T* dweights) {
  double product = 0;
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kThreads) {
    product += sums[std::int64_t{blockIdx.x} * blocks + i];
  }
  product = block_sum<kThreads>(product);
  if (threadIdx.x == 0) {
    const double s = arithmetic::sigmoid(static_cast<double>(widen(weights[blockIdx.x])));
    dweights[blockIdx.x] = narrow<T>(static_cast<Compute<T>>(s * (1 - s) * product));
  }
}

}  // namespace

Implementations make_weighted_sum(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    const std::int64_t size = spec.outputs[0].shape.size();
    const std::size_t bytes = TermTable<T>::workspace_bytes(spec.inputs.size() - 1, size);
    return function_kernel(bytes, [size, units = spec.info->capacity](const StreamHandles& stream, auto inputs,
                                                                      auto outputs, void* workspace) {
      constexpr int kWidth = kVectorWidth<T>;
      T* const y = at<T>(outputs, 0);
      for_term_tables<T>(inputs.subspan(1), workspace, [&](const TermTable<T>& terms, std::size_t first) {
        const bool aligned = terms.template is_aligned<kWidth>() && is_aligned<kWidth>(y);
        with_width<kWidth>(aligned, [&]<int kLanes>() {
          launch(stream, stride_shape(size, kLanes, units), weighted_sum_kernel<kLanes, T>, size,
                 at<const T>(inputs, 0) + first, terms, y);
        });
      });
    });
  });
}

Implementations make_weighted_sum_backward(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    const std::int64_t size = spec.inputs[0].shape.size();
    const std::size_t count = spec.inputs.size() - 2;
    const unsigned blocks = blocks_for(size, kTile<kVectorWidth<T>>, spec.info->capacity, 8);
    return function_kernel(count * blocks * sizeof(double), [=](const StreamHandles& stream, auto inputs, auto outputs,
                                                                void* workspace) {
      constexpr int kWidth = kVectorWidth<T>;
      constexpr std::size_t kTerms = GradientTable<T>::kTerms;
      const T *dy = at<const T>(inputs, 0), *weights = at<const T>(inputs, 1);
      double* const sums = static_cast<double*>(workspace);
      // The first launch comes last: its first dx may take the place of dy.
      for (std::size_t first = (count - 1) / kTerms * kTerms + kTerms; first > 0;) {
        first -= kTerms;
        GradientTable<T> terms;
        bool aligned = size % kWidth == 0 && is_aligned<kWidth>(dy);
        for (std::size_t i = first; i < std::min(count, first + kTerms); ++i) {
          terms.x[terms.count] = at<const T>(inputs, i + 2);
          terms.dx[terms.count++] = at<T>(outputs, i + 1);
          aligned = aligned && is_aligned<kWidth>(at<T>(inputs, i + 2)) && is_aligned<kWidth>(at<T>(outputs, i + 1));
        }
        with_width<kWidth>(aligned, [&]<int kLanes>() {
          launch(stream, {.grid = blocks, .block = kThreads}, weighted_sum_backward_kernel<kLanes, T>, size, dy,
                 weights + first, terms, sums + first * blocks);
        });
      }
      launch(stream, {.grid = static_cast<unsigned>(count), .block = kThreads}, weight_gradient_kernel<T>,
             static_cast<int>(blocks), static_cast<const double*>(sums), weights, at<T>(outputs, 0));
    });
  });
}

}  // namespace braid::cuda
