#pragma once
// A kernel made of oneDNN primitives, and the few lines that differ between oneDNN 2.x and 3.x.
// oneDNN fixes the number of threads of a primitive when it is created and takes it from OpenMP, so primitives are
// created and executed under the same ThreadLimit.

#include <omp.h>

#include <cstddef>
#include <dnnl.hpp>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ops/cpu/cpu_kernel.h"

namespace braid::cpu::onednn {

/// The one CPU engine of the process. Engines hold no mutable state and may be used from any thread.
const dnnl::engine& engine();

/// Sets how many OpenMP threads the calling thread's parallel regions use, until the end of the scope.
class ThreadLimit {
 public:
  explicit ThreadLimit(int width) : saved_(omp_get_max_threads()) { omp_set_num_threads(width); }
  ~ThreadLimit() { omp_set_num_threads(saved_); }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int saved_;
};

/// Scratch memory of every primitive is ours: the memory planner has to know of it.
inline dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

#if DNNL_VERSION_MAJOR >= 3
inline void append(dnnl::post_ops& steps, dnnl::algorithm function, float alpha, float beta) {
  steps.append_eltwise(function, alpha, beta);
}
template <class Primitive, class... Arguments>
auto describe(const dnnl::primitive_attr& attributes, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(engine(), arguments..., attributes);
}
template <class Primitive, class Forward, class... Arguments>
auto describe_backward(const Forward& forward, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(engine(), arguments..., forward, user_scratchpad());
}
#else
inline void append(dnnl::post_ops& steps, dnnl::algorithm function, float alpha, float beta) {
  steps.append_eltwise(1, function, alpha, beta);
}
template <class Primitive, class... Arguments>
auto describe(const dnnl::primitive_attr& attributes, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes, engine());
}
template <class Primitive, class Forward, class... Arguments>
auto describe_backward(const Forward& forward, const Arguments&... arguments) {
  return
      typename Primitive::primitive_desc(typename Primitive::desc(arguments...), user_scratchpad(), engine(), forward);
}
#endif

/// Primitives that run one after another. Memory objects are made while the kernel is built, without addresses;
/// bind() fills the addresses in and launch() only executes.
class PrimitiveKernel final : public Kernel {
 public:
  explicit PrimitiveKernel(int width) : width_(width), stream_(engine()) {}

  /// A memory object for the node's i-th input or output, or for a slice of the workspace.
  dnnl::memory input(std::size_t i, const dnnl::memory::desc& desc) { return place(Home::input, i, desc); }
  dnnl::memory output(std::size_t i, const dnnl::memory::desc& desc) { return place(Home::output, i, desc); }
  dnnl::memory scratch(const dnnl::memory::desc& desc);

  /// Appends a primitive. `description` is the primitive_desc it is made from.
  template <class Primitive, class Description>
  void add(const Description& description, std::unordered_map<int, dnnl::memory> arguments) {
    arguments.insert({DNNL_ARG_SCRATCHPAD, scratch(description.scratchpad_desc())});
    steps_.push_back({Primitive(description), std::move(arguments)});
  }
  /// Appends a copy from one layout to another.
  void add_reorder(const dnnl::memory& from, const dnnl::memory& to);
  /// The same tensor in the layout `desc`: itself if it has it already, else a copy made at this point.
  dnnl::memory reordered(const dnnl::memory& memory, const dnnl::memory::desc& desc);

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override;
  void launch(const LaunchContext& context) override;

 private:
  enum class Home { input, output, workspace };
  struct Place {
    Home home;
    std::size_t position;  // index of the input or output, or offset in the workspace
    dnnl::memory memory;
  };
  struct Step {
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> arguments;
  };

  dnnl::memory place(Home home, std::size_t position, const dnnl::memory::desc& desc);

  int width_;
  dnnl::stream stream_;
  std::size_t workspace_bytes_ = 0;
  std::vector<Place> places_;
  std::vector<Step> steps_;
};

/// Calls build(kernel) to fill a kernel with primitives. Null if a value is not f32 or empty, or if oneDNN refuses.
template <class Build>
std::unique_ptr<Kernel> build_kernel(const KernelSpec& spec, const Build& build) {
  for (const std::span<const ValueDesc> values : {spec.inputs, spec.outputs}) {
    for (const ValueDesc& value : values) {
      if (value.dtype != DType::f32 || value.shape.size() == 0) return nullptr;
    }
  }
  const ThreadLimit limit(spec.width);
  try {
    auto kernel = std::make_unique<PrimitiveKernel>(spec.width);
    build(*kernel);
    return kernel;
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace braid::cpu::onednn
