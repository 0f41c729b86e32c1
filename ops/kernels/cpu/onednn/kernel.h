#pragma once
// A kernel made of oneDNN primitives, and the few lines that differ between oneDNN 2.x and 3.x. oneDNN would run a
// primitive on a team of OpenMP threads, all of which have to run at once. Here a primitive runs on one thread: a large
// problem is cut into pieces with a primitive each, and the threads of the pool take the pieces. How it is cut depends
// on its shape alone, never on the width, and so do its results.

#include <dlfcn.h>

#include <cstddef>
#include <dnnl.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/device/cpu/free_memory.h"
#include "ops/kernels/cpu/kept_filter.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/cpu/onednn/onednn.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cpu::onednn {

/// The one CPU engine of the process. Engines hold no mutable state and may be used from any thread.
const dnnl::engine& engine();

/// Keeps oneDNN to the calling thread until the end of the scope. The setting belongs to the OpenMP that oneDNN loads,
/// which may differ from our compiler's. Without either, oneDNN was built for one thread.
class OneThread {
 public:
  OneThread() {
    if (get_ != nullptr && set_ != nullptr) saved_ = get_(), set_(1);
  }
  ~OneThread() {
    if (saved_ > 0) set_(saved_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  static inline int (*const get_)() = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  static inline void (*const set_)(int) = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  int saved_ = 0;
};

/// The number of pieces to cut a product of `outer` by a filter of `filter` elements into, at most `most`: each should
/// take tens of microseconds. A power of two, so that as many threads get equal work.
std::int64_t pieces_of(std::int64_t outer, std::int64_t filter, std::int64_t most);

/// Braid provides the scratch memory of every primitive, because the memory planner has to know about it.
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

/// Steps run one after another, the tasks of a step at the same time, the calls of a task in order. Memory objects are
/// made while the kernel is built, without addresses; bind() fills the addresses in and launch() only executes.
class PrimitiveKernel final : public Kernel {
 public:
  using Arguments = std::unordered_map<int, dnnl::memory>;

  explicit PrimitiveKernel(int width) : width_(width), stream_(engine()) {}

  /// A memory object for the node's i-th input or output from an element on, or for a slice of the workspace.
  dnnl::memory input(std::size_t i, const dnnl::memory::desc& desc, std::int64_t element = 0) {
    return place(Home::input, i, element * sizeof(float), desc);
  }
  dnnl::memory output(std::size_t i, const dnnl::memory::desc& desc, std::int64_t element = 0) {
    return place(Home::output, i, element * sizeof(float), desc);
  }
  dnnl::memory scratch(const dnnl::memory::desc& desc);
  /// A memory object for input 1 in another layout, to keep: the steps so far are those of keep_filter(), which makes
  /// it. At most one per kernel.
  dnnl::memory kept(const dnnl::memory::desc& desc);
  void keep_steps() { kept_steps_ = steps_.size(); }
  /// A part of another memory object, which must be one of the above. Nothing if a block of its layout would be cut.
  std::optional<dnnl::memory> view(const dnnl::memory& whole, const dnnl::memory::dims& dims,
                                   const dnnl::memory::dims& offset);

  /// Makes a primitive from its description. Returns its number; any number of calls may use it.
  template <class Primitive, class Description>
  std::size_t compile(const Description& description) {
    return add_primitive(Primitive(description), description.scratchpad_desc());
  }

  /// Begins a new step, or a new task of the step. A kernel starts with one of each.
  void begin_step() { steps_.emplace_back().tasks.emplace_back(); }
  void begin_task() { steps_.back().tasks.emplace_back(); }
  void call(std::size_t primitive, const Arguments& arguments);
  /// A call that copies from one layout to another.
  void copy(const dnnl::memory& from, const dnnl::memory& to);
  /// Adds a step: `total` becomes the sum of the parts, which have its layout, added in order.
  void sum(std::vector<dnnl::memory> parts, const dnnl::memory& total);

  std::size_t workspace_bytes() const override {
    return shared_bytes_ + static_cast<std::size_t>(width_) * scratchpad_bytes_;
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override;
  bool keeps_filter() const override { return kept_steps_ > 0; }
  void keep_filter(std::uint64_t version) override;
  void launch(const LaunchContext& context) override;

 private:
  enum class Home { input, output, workspace, kept, scratchpad };
  struct Place {
    Home home;
    std::size_t index;   // number of the input, the output, or the thread whose scratchpad it is
    std::size_t offset;  // in bytes
    dnnl::memory memory;
  };
  struct Primitive {
    dnnl::primitive primitive;
    std::vector<dnnl::memory> scratchpads;  // one per thread
  };
  struct Call {
    std::size_t primitive;
    std::vector<dnnl_exec_arg_t> arguments;  // all but the scratchpad
  };
  using Task = std::vector<Call>;
  struct Step {
    std::vector<Task> tasks;
    std::vector<dnnl::memory> parts;  // the parts of a sum, if it is one
    dnnl::memory total;
  };

  std::size_t add_primitive(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad);
  dnnl::memory place(Home home, std::size_t index, std::size_t offset, const dnnl::memory::desc& desc);
  void run(std::span<const Step> steps) const;
  void run(const Task& task, int member) const;

  int width_;
  dnnl::stream stream_;
  std::size_t shared_bytes_ = 0;      // bytes of the workspace, for all threads
  std::size_t scratchpad_bytes_ = 0;  // and for each
  std::size_t kept_steps_ = 0;        // steps of keep_filter()
  dnnl::memory::desc kept_layout_;
  std::shared_ptr<KeptFilter> kept_;  // once bound
  std::vector<Place> places_;
  std::vector<Primitive> primitives_;
  std::vector<Step> steps_{Step{{Task{}}, {}, {}}};
};

/// Kernels are built one at a time: oneDNN gives equal primitives to several threads, ordered in a way that checkers of
/// races cannot see.
inline std::mutex build_mutex;

/// Lets oneDNN generate the code of its matrix product. Else the first primitive that uses it does so when it runs, and
/// crashes if memory is short by then.
inline void generate_matrix_product() {
  static const dnnl_status_t generated = [] {
    const float a[4] = {}, b[4] = {};  // a vector would use other code
    float c[4];
    return dnnl_sgemm('N', 'N', 2, 2, 2, 1.0f, a, 2, b, 2, 0.0f, c, 2);
  }();
  static_cast<void>(generated);
}

/// Calls build(kernel) to fill a kernel with primitives. Null if oneDNN is not available or has no implementation.
template <class Build>
std::unique_ptr<Kernel> build_kernel(const KernelSpec& spec, const Build& build) {
  if (!available()) return nullptr;
  const std::lock_guard lock(build_mutex);
  // oneDNN crashes if it gets no memory for the code that it generates.
  constexpr std::size_t kCodeBytes = std::size_t{64} << 20;
  check_free_memory("code for a convolution or matrix product", kCodeBytes);
  const OneThread limit;
  generate_matrix_product();
  try {
    auto kernel = std::make_unique<PrimitiveKernel>(spec.width);
    build(*kernel);
    return kernel;
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return nullptr;
    BRAID_CHECK(error.status != dnnl_out_of_memory, OutOfMemory, "[", spec.op.name(),
                "] oneDNN has too little memory to make a kernel for ", spec.inputs[0].shape, " and ",
                spec.inputs[1].shape);
    throw Error(message("[", spec.op.name(), "] oneDNN: ", error.what()));
  }
}

}  // namespace braid::cpu::onednn
