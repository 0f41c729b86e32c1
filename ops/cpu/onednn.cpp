#include "ops/cpu/onednn.h"

#include <array>
#include <string>

#include "core/align.h"
#include "ops/cpu/onednn_kernel.h"

namespace braid::cpu::onednn {

bool available() { return true; }

std::string version() {
  const dnnl::version_t* version = dnnl::version();
  return std::to_string(version->major) + '.' + std::to_string(version->minor) + '.' + std::to_string(version->patch);
}

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::memory PrimitiveKernel::place(Home home, std::size_t position, const dnnl::memory::desc& desc) {
  places_.push_back({home, position, dnnl::memory(desc, engine(), DNNL_MEMORY_NONE)});
  return places_.back().memory;
}

dnnl::memory PrimitiveKernel::scratch(const dnnl::memory::desc& desc) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t offset = workspace_bytes_;
  workspace_bytes_ += align_up(desc.get_size(), kAlignment);
  return place(Home::workspace, offset, desc);
}

void PrimitiveKernel::add_reorder(const dnnl::memory& from, const dnnl::memory& to) {
  const dnnl::reorder::primitive_desc description(engine(), from.get_desc(), engine(), to.get_desc(),
                                                  user_scratchpad());
  add<dnnl::reorder>(description, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

dnnl::memory PrimitiveKernel::reordered(const dnnl::memory& memory, const dnnl::memory::desc& desc) {
  if (memory.get_desc() == desc) return memory;
  const dnnl::memory copy = scratch(desc);
  add_reorder(memory, copy);
  return copy;
}

void PrimitiveKernel::bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) {
  const ThreadLimit limit(width_);
  for (Place& place : places_) {
    switch (place.home) {
      case Home::input: place.memory.set_data_handle(inputs[place.position]); break;
      case Home::output: place.memory.set_data_handle(outputs[place.position]); break;
      case Home::workspace: place.memory.set_data_handle(static_cast<std::byte*>(workspace) + place.position); break;
    }
  }
}

void PrimitiveKernel::launch(const LaunchContext&) {
  const ThreadLimit limit(width_);
  for (const Step& step : steps_) step.primitive.execute(stream_, step.arguments);
}

namespace {

using dnnl::memory;

/// The matrix [rows, columns] stored row by row, or its transpose seen without copying.
memory::desc matrix(std::int64_t rows, std::int64_t columns) {
  return {{rows, columns}, memory::data_type::f32, memory::format_tag::ab};
}
memory::desc transposed(std::int64_t rows, std::int64_t columns) {
  return {{columns, rows}, memory::data_type::f32, memory::format_tag::ba};
}

/// output = a · b, where a and b are inputs 0 and 1 in that or in the other order.
std::unique_ptr<Kernel> product(const KernelSpec& spec, std::array<std::size_t, 2> order, const memory::desc& a,
                                const memory::desc& b, const memory::desc& c) {
  return build_kernel(spec, [&](PrimitiveKernel& kernel) {
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, kernel.input(order[0], a)},
                                              {DNNL_ARG_WEIGHTS, kernel.input(order[1], b)},
                                              {DNNL_ARG_DST, kernel.output(0, c)}};
    if (spec.inputs.size() == 3) {
      const memory::desc bias = matrix(1, spec.inputs[2].shape[0]);
      arguments.insert({DNNL_ARG_BIAS, kernel.input(2, bias)});
      kernel.add<dnnl::matmul>(describe<dnnl::matmul>(user_scratchpad(), a, b, bias, c), std::move(arguments));
    } else {
      kernel.add<dnnl::matmul>(describe<dnnl::matmul>(user_scratchpad(), a, b, c), std::move(arguments));
    }
  });
}

}  // namespace

std::unique_ptr<Kernel> linear(const KernelSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &w = spec.inputs[1].shape;
  return product(spec, {0, 1}, matrix(x[0], x[1]), transposed(w[0], w[1]), matrix(x[0], w[0]));
}

std::unique_ptr<Kernel> linear_backward_data(const KernelSpec& spec) {
  const Shape &dy = spec.inputs[0].shape, &w = spec.inputs[1].shape;
  return product(spec, {0, 1}, matrix(dy[0], dy[1]), matrix(w[0], w[1]), matrix(dy[0], w[1]));
}

std::unique_ptr<Kernel> linear_backward_filter(const KernelSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &dy = spec.inputs[1].shape;
  return product(spec, {1, 0}, transposed(dy[0], dy[1]), matrix(x[0], x[1]), matrix(dy[1], x[1]));
}

}  // namespace braid::cpu::onednn
