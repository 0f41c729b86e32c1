#pragma once
// A kernel is one node made ready to run: descriptor built, algorithm chosen, pointers bound. It is built once per plan
// and then launched without allocating, looking anything up or locking (except inside oneDNN).

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/dtype.h"
#include "core/base/shape.h"

namespace braid {

/// Dtype and shape of a value.
struct ValueDesc {
  DType dtype = DType::f32;
  Shape shape;
  static constexpr std::string_view kNames[] = {"dtype", "shape"};
  std::size_t bytes() const { return size_of(dtype) * static_cast<std::size_t>(shape.size()); }
  friend bool operator==(const ValueDesc&, const ValueDesc&) = default;
};

/// Where a kernel runs.
struct LaunchContext {
  const void* native = nullptr;  ///< the backend's data of the stream (a cuda::StreamHandles); null on CPU
  void* cuda_stream = nullptr;   ///< the cudaStream_t to enqueue in; null on CPU
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Bytes of scratch memory needed while it runs; its stream's workspace slice is at least as large.
  virtual std::size_t workspace_bytes() const { return 0; }
  /// Floating-point operations of a launch if they differ from those of Op::work; else 0.
  virtual double flops() const { return 0; }
  /// Gives the final addresses, in the order of the node's inputs and outputs. Called before the first launch, and
  /// again whenever the arena has moved.
  virtual void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) = 0;
  /// Whether launches read a copy of the filter in another layout: see KernelSpec::constant_filter.
  virtual bool keeps_filter() const { return false; }
  /// Makes that copy, unless it is of this version already. Called after bind(), before the first launch and whenever
  /// the filter has changed, while nothing else uses the filter. Versions are those of Parameter.
  virtual void keep_filter(std::uint64_t /*version*/) {}
  /// Whether the next launch may throw UnusableKernel. A plan launches such a kernel once before its first step,
  /// because a step that fails half-way cannot be run again.
  virtual bool is_untried() const { return false; }
  /// Runs (CPU) or enqueues (CUDA) the work. Never called for one kernel from two threads at a time.
  virtual void launch(const LaunchContext& context) = 0;
};

}  // namespace braid
