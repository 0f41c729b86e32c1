#include "ops/kernels/cpu/onednn/onednn.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "core/base/align.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/cpu/onednn/kernel.h"
#include "ops/matmul/linear.h"

namespace braid::cpu::onednn {

namespace {

constexpr std::size_t kAlignment = 64;

/// All that defines a layout, as bytes.
std::string text_of(const dnnl::memory::desc& layout) {
#if DNNL_VERSION_MAJOR >= 3
  std::size_t bytes = 0;
  dnnl_memory_desc_get_blob(nullptr, &bytes, layout.get());
  std::string text(bytes, '\0');
  dnnl_memory_desc_get_blob(reinterpret_cast<std::uint8_t*>(text.data()), &bytes, layout.get());
  return text;
#else
  return {reinterpret_cast<const char*>(&layout.data), sizeof layout.data};
#endif
}

}  // namespace

bool available() {
  static const char* const wanted = std::getenv("BRAID_ONEDNN");
  return wanted == nullptr || std::string_view(wanted) != "0";
}

std::string version() {
  if (!available()) return {};
  const dnnl::version_t* version = dnnl::version();
  return std::to_string(version->major) + '.' + std::to_string(version->minor) + '.' + std::to_string(version->patch);
}

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

std::int64_t pieces_of(std::int64_t outer, std::int64_t filter, std::int64_t most) {
  // A filter is read once per piece, at less speed than its products are computed when they are few.
  constexpr double kPieceFlops = 4e6, kReadFlops = 16;
  constexpr std::int64_t kMostPieces = 32;
  const double flops = (2 * static_cast<double>(outer) + kReadFlops) * static_cast<double>(filter);
  const std::int64_t pieces = std::clamp<std::int64_t>(static_cast<std::int64_t>(flops / kPieceFlops), 1,
                                                       std::clamp<std::int64_t>(most, 1, kMostPieces));
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(pieces)));
}

dnnl::memory PrimitiveKernel::place(Home home, std::size_t index, std::size_t offset, const dnnl::memory::desc& desc) {
  places_.push_back({home, index, offset, dnnl::memory(desc, engine(), DNNL_MEMORY_NONE)});
  return places_.back().memory;
}

dnnl::memory PrimitiveKernel::scratch(const dnnl::memory::desc& desc) {
  const std::size_t offset = shared_bytes_;
  shared_bytes_ += align_up(desc.get_size(), kAlignment);
  return place(Home::workspace, 0, offset, desc);
}

dnnl::memory PrimitiveKernel::kept(const dnnl::memory::desc& desc) {
  kept_layout_ = desc;
  return place(Home::kept, 0, 0, desc);
}

std::optional<dnnl::memory> PrimitiveKernel::view(const dnnl::memory& whole, const dnnl::memory::dims& dims,
                                                  const dnnl::memory::dims& offset) {
  const auto found = std::ranges::find(places_, whole, &Place::memory);
  BRAID_CHECK(found != places_.end(), Error, "[onednn] a view of memory that is not the kernel's");
  const Place base = *found;
  const dnnl::memory::desc part = whole.get_desc().submemory_desc(dims, offset, true);
  if (!part) return std::nullopt;
  return place(base.home, base.index, base.offset, part);
}

std::size_t PrimitiveKernel::add_primitive(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad) {
  scratchpad_bytes_ = std::max(scratchpad_bytes_, align_up(scratchpad.get_size(), kAlignment));
  Primitive& added = primitives_.emplace_back();
  added.primitive = std::move(primitive);
  for (int thread = 0; thread < width_; ++thread) {
    added.scratchpads.push_back(place(Home::scratchpad, static_cast<std::size_t>(thread), 0, scratchpad));
  }
  return primitives_.size() - 1;
}

void PrimitiveKernel::call(std::size_t primitive, const Arguments& arguments) {
  Call& call = steps_.back().tasks.back().emplace_back();
  call.primitive = primitive;
  for (const auto& [role, memory] : arguments) call.arguments.push_back({role, memory.get()});
}

void PrimitiveKernel::copy(const dnnl::memory& from, const dnnl::memory& to) {
  const dnnl::reorder::primitive_desc description(engine(), from.get_desc(), engine(), to.get_desc(),
                                                  user_scratchpad());
  call(compile<dnnl::reorder>(description), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void PrimitiveKernel::sum(std::vector<dnnl::memory> parts, const dnnl::memory& total) {
  steps_.push_back({.tasks = {}, .parts = std::move(parts), .total = total});
}

void PrimitiveKernel::bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) {
  const OneThread limit;
  if (keeps_filter()) kept_ = KeptFilter::of(inputs[1], text_of(kept_layout_), kept_layout_.get_size());
  const auto start = [&](const Place& place) -> void* {
    switch (place.home) {
      case Home::input: return inputs[place.index];
      case Home::output: return outputs[place.index];
      case Home::workspace: return workspace;
      case Home::kept: return kept_->data();
      case Home::scratchpad: break;
    }
    return static_cast<std::byte*>(workspace) + shared_bytes_ + place.index * scratchpad_bytes_;
  };
  for (Place& place : places_) place.memory.set_data_handle(static_cast<std::byte*>(start(place)) + place.offset);
}

void PrimitiveKernel::launch(const LaunchContext&) { run(std::span(steps_).subspan(kept_steps_)); }

void PrimitiveKernel::keep_filter(std::uint64_t version) {
  kept_->update(version, [&] { run(std::span(steps_).first(kept_steps_)); });
}

void PrimitiveKernel::run(std::span<const Step> steps) const {
  for (const Step& step : steps) {
    parallel_for(width_, std::ssize(step.tasks), 1, [&](std::int64_t task, std::int64_t, int member) {
      run(step.tasks[static_cast<std::size_t>(task)], member);
    });
    if (step.parts.empty()) continue;
    const auto size = static_cast<std::int64_t>(step.total.get_desc().get_size() / sizeof(float));
    const auto part = [&](std::int64_t i) {
      return static_cast<const float*>(step.parts[static_cast<std::size_t>(i)].get_data_handle());
    };
    sum_parts(width_, size, std::ssize(step.parts), part, static_cast<float*>(step.total.get_data_handle()));
  }
}

void PrimitiveKernel::run(const Task& task, int member) const {
  const OneThread limit;
  for (const Call& call : task) {
    const Primitive& primitive = primitives_[call.primitive];
    std::array<dnnl_exec_arg_t, 8> arguments;
    const auto last = std::ranges::copy(call.arguments, arguments.begin()).out;
    *last = {DNNL_ARG_SCRATCHPAD, primitive.scratchpads[static_cast<std::size_t>(member)].get()};
    const int count = static_cast<int>(last - arguments.begin()) + 1;
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive.primitive.get(), stream_.get(), count, arguments.data());
    BRAID_CHECK(status == dnnl_success, Error, "[onednn] a primitive failed with status ", static_cast<int>(status));
  }
}

namespace {

using dnnl::memory;

/// A matrix [rows, columns]. Rows are `pitch` elements apart; or columns are, if the matrix is a transpose that is seen
/// without copying.
memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
  return {{rows, columns}, memory::data_type::f32, memory::dims{pitch, 1}};
}
memory::desc transposed(std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
  return {{rows, columns}, memory::data_type::f32, memory::dims{1, pitch}};
}

auto describe_product(const memory& a, const memory& b, const memory& c) {
  return describe<dnnl::matmul>(user_scratchpad(), a.get_desc(), b.get_desc(), c.get_desc());
}

/// Products of a matrix by a filter [K,C] are cut along K or C: part(kernel, first, size) adds the task for the
/// features [first, first + size) of `features`.
template <class AddPart>
std::unique_ptr<Kernel> product(const KernelSpec& spec, std::int64_t outer, std::int64_t filter, std::int64_t features,
                                const AddPart& add_part) {
  constexpr std::int64_t kUnit = 64;
  return build_kernel(spec, [&](PrimitiveKernel& kernel) {
    const std::int64_t pieces = pieces_of(outer, filter, features / kUnit);
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Part part = part_of(features, pieces == 1 ? features : kUnit, pieces, i);
      if (i > 0) kernel.begin_task();
      add_part(kernel, part);
    }
  });
}

}  // namespace

/// Cut by batches, or else along the longer side of the result.
std::unique_ptr<Kernel> matmul(const KernelSpec& spec) {
  constexpr std::int64_t kLeast = 64;  // rows or columns in a piece
  const auto [ta, tb] = static_cast<const MatmulOptions&>(spec.attributes<ops::Matmul>());
  const ops::MatmulExtents e(spec.attributes<ops::Matmul>(), spec.inputs[0].shape, spec.inputs[1].shape);
  enum { batch, row, column } cut = e.batches > 1 ? batch : e.m >= e.n ? row : column;
  const std::int64_t size = cut == batch ? e.batches : std::max(e.m, e.n);
  const std::int64_t pieces = pieces_of(e.batches * e.m, e.k * e.n, cut == batch ? size : size / kLeast);
  return build_kernel(spec, [&, ta = ta, tb = tb](PrimitiveKernel& kernel) {
    std::map<std::int64_t, std::size_t> compiled;  // by size
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Part part = part_of(size, 1, pieces, i);
      const auto extent = [&](auto axis, std::int64_t whole) { return cut == axis ? part.size : whole; };
      const auto first = [&](auto axis, std::int64_t step) { return cut == axis ? part.begin * step : 0; };
      const std::int64_t batches = extent(batch, e.batches), m = extent(row, e.m), n = extent(column, e.n);
      const auto matrices = [](const memory::dims& dims, const memory::dims& strides) {
        return memory::desc(dims, memory::data_type::f32, strides);
      };
      // A matrix that all products share has one batch, which oneDNN repeats.
      const memory a =
          kernel.input(0, matrices({e.a_step == 0 ? 1 : batches, m, e.k}, {m * e.k, ta ? 1 : e.k, ta ? e.m : 1}),
                       first(batch, e.a_step) + first(row, ta ? 1 : e.k));
      const memory b =
          kernel.input(1, matrices({e.b_step == 0 ? 1 : batches, e.k, n}, {e.k * n, tb ? 1 : e.n, tb ? e.k : 1}),
                       first(batch, e.b_step) + first(column, tb ? e.k : 1));
      const memory y = kernel.output(0, matrices({batches, m, n}, {m * n, e.n, 1}),
                                     first(batch, e.m * e.n) + first(row, e.n) + first(column, 1));
      if (i > 0) kernel.begin_task();
      const auto [found, is_new] = compiled.try_emplace(part.size);
      if (is_new) found->second = kernel.compile<dnnl::matmul>(describe_product(a, b, y));
      kernel.call(found->second, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}});
    }
  });
}

std::unique_ptr<Kernel> linear(const KernelSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &w = spec.inputs[1].shape;
  const std::int64_t n = x[0], c = w[1], k = w[0];
  return product(spec, n, w.size(), k, [&](PrimitiveKernel& kernel, Part part) {
    const memory image = kernel.input(0, matrix(n, c, c));
    const memory filter = kernel.input(1, transposed(c, part.size, c), part.begin * c);
    const memory y = kernel.output(0, matrix(n, part.size, k), part.begin);
    // oneDNN is faster if the rows of the result are next to each other.
    const memory result = n == 1 || part.size == k ? y : kernel.scratch(matrix(n, part.size, part.size));
    PrimitiveKernel::Arguments arguments{{DNNL_ARG_SRC, image}, {DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_DST, result}};
    if (spec.inputs.size() == 3) {
      const memory bias = kernel.input(2, matrix(1, part.size, part.size), part.begin);
      arguments.insert({DNNL_ARG_BIAS, bias});
      kernel.call(kernel.compile<dnnl::matmul>(describe<dnnl::matmul>(
                      user_scratchpad(), image.get_desc(), filter.get_desc(), bias.get_desc(), result.get_desc())),
                  arguments);
    } else {
      kernel.call(kernel.compile<dnnl::matmul>(describe_product(image, filter, result)), arguments);
    }
    if (result != y) kernel.copy(result, y);
  });
}

std::unique_ptr<Kernel> linear_backward_data(const KernelSpec& spec) {
  const Shape &dy_shape = spec.inputs[0].shape, &w = spec.inputs[1].shape;
  const std::int64_t n = dy_shape[0], c = w[1], k = w[0];
  return product(spec, n, w.size(), c, [&](PrimitiveKernel& kernel, Part part) {
    const memory dy = kernel.input(0, matrix(n, k, k));
    const memory filter = kernel.input(1, matrix(k, part.size, c), part.begin);
    const memory dx = kernel.output(0, matrix(n, part.size, c), part.begin);
    kernel.call(kernel.compile<dnnl::matmul>(describe_product(dy, filter, dx)),
                {{DNNL_ARG_SRC, dy}, {DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_DST, dx}});
  });
}

std::unique_ptr<Kernel> linear_backward_filter(const KernelSpec& spec) {
  const Shape &x_shape = spec.inputs[0].shape, &dy_shape = spec.inputs[1].shape;
  const std::int64_t n = x_shape[0], c = x_shape[1], k = dy_shape[1];
  return product(spec, n, k * c, k, [&](PrimitiveKernel& kernel, Part part) {
    const memory dy = kernel.input(1, transposed(part.size, n, k), part.begin);
    const memory x = kernel.input(0, matrix(n, c, c));
    const memory dw = kernel.output(0, matrix(part.size, c, c), part.begin * c);
    kernel.call(kernel.compile<dnnl::matmul>(describe_product(dy, x, dw)),
                {{DNNL_ARG_SRC, dy}, {DNNL_ARG_WEIGHTS, x}, {DNNL_ARG_DST, dw}});
  });
}

}  // namespace braid::cpu::onednn
