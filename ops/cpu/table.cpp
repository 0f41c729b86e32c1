// The CPU's kernel table: every op by name.

#include <algorithm>
#include <array>
#include <utility>

#include "ops/cpu/cpu_kernel.h"
#include "ops/cpu/low_precision.h"

namespace braid::cpu {

namespace {

constexpr std::pair<std::string_view, Factory> kTable[] = {
    {"accuracy", make_accuracy},
    {"adam_update", make_adam_update},
    {"adaptive_avg_pool2d", make_adaptive_avg_pool2d},
    {"adaptive_avg_pool2d_backward", make_adaptive_avg_pool2d_backward},
    {"avg_pool2d", make_avg_pool2d},
    {"avg_pool2d_backward", make_avg_pool2d_backward},
    {"batch_norm", make_batch_norm},
    {"batch_norm_apply", make_batch_norm_apply},
    {"batch_norm_backward", make_batch_norm_backward},
    {"batch_norm_inference", make_batch_norm_inference},
    {"cast", make_cast},
    {"channel_slice", make_channel_slice},
    {"channel_sum", make_channel_sum},
    {"concat", make_concat},
    {"conv2d", make_conv2d},
    {"conv2d_backward_data", make_conv2d_backward_data},
    {"conv2d_backward_filter", make_conv2d_backward_filter},
    {"cross_entropy", make_cross_entropy},
    {"cross_entropy_backward", make_cross_entropy_backward},
    {"dropout", make_dropout},
    {"fill", make_fill},
    {"global_avg_pool", make_global_avg_pool},
    {"global_avg_pool_backward", make_global_avg_pool_backward},
    {"linear", make_linear},
    {"linear_backward_data", make_linear_backward_data},
    {"linear_backward_filter", make_linear_backward_filter},
    {"loss_scale_update", make_loss_scale_update},
    {"max_pool2d", make_max_pool2d},
    {"max_pool2d_backward", make_max_pool2d_backward},
    {"relu", make_relu},
    {"relu6", make_relu6},
    {"relu6_backward", make_relu6_backward},
    {"relu_backward", make_relu_backward},
    {"scale", make_scale},
    {"scale_by", make_scale_by},
    {"sgd_update", make_sgd_update},
    {"slice_sum", make_slice_sum},
    {"sum", make_sum},
    {"weighted_sum", make_weighted_sum},
    {"weighted_sum_backward", make_weighted_sum_backward},
};
static_assert(std::ranges::is_sorted(kTable, {}, &std::pair<std::string_view, Factory>::first));

}  // namespace

std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) {
  const auto found = std::ranges::lower_bound(kTable, spec.op.name(), {}, &std::pair<std::string_view, Factory>::first);
  BRAID_CHECK(found != std::end(kTable) && found->first == spec.op.name(), Error, "[", spec.op.name(),
              "] has no CPU kernel");
  const bool any_type = found->second == make_cast || found->second == make_fill;
  return any_type || !is_low_precision(spec) ? found->second(spec) : make_low_precision(spec, found->second);
}

std::vector<std::string_view> kernel_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, factory] : kTable) names.push_back(name);
  return names;
}

}  // namespace braid::cpu
