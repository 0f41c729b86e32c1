// The CUDA kernel table: every op by name.

#include <algorithm>

#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/factories.h"

namespace braid::cuda {

namespace {

struct Entry {
  std::string_view name;
  Factory make = nullptr;
  std::vector<Implementation> (*make_all)(const KernelSpec& spec) = nullptr;  // instead, for ops with several ways
};

constexpr Entry kTable[] = {
    {"conv2d", nullptr, make_conv2d},
    {"conv2d_backward_data", nullptr, make_conv2d_backward_data},
    {"conv2d_backward_filter", nullptr, make_conv2d_backward_filter},
    {"linear", make_linear},
    {"linear_backward_data", make_linear_backward_data},
    {"linear_backward_filter", make_linear_backward_filter},
    {"relu", make_relu},
};
static_assert(std::ranges::is_sorted(kTable, {}, &Entry::name));

}  // namespace

std::vector<Implementation> make_implementations(const KernelSpec& spec) {
  const auto found = std::ranges::lower_bound(kTable, spec.op.name(), {}, &Entry::name);
  BRAID_CHECK(found != std::end(kTable) && found->name == spec.op.name(), Error, "[", spec.op.name(),
              "] has no CUDA kernel");
  if (found->make_all != nullptr) return found->make_all(spec);
  std::vector<Implementation> one;
  one.push_back({.kernel = found->make(spec)});
  return one;
}

std::vector<std::string_view> kernel_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kTable) names.push_back(entry.name);
  return names;
}

}  // namespace braid::cuda
