#pragma once
// The ops of Braid that have kernels, one line each: cpu::make_<op> and cuda::make_<op>, in the folders cpu and cuda
// of their families, are their factories. They do not register themselves, because a linker leaves out objects of a
// static library that no other object names. This is a macro because only the preprocessor makes a declaration and a
// text of one word.

#include "ops/kernels/kernels.h"

// clang-format off
#define BRAID_FOR_EACH_KERNEL(use) \
  use(accuracy) \
  use(adam_update) \
  use(adaptive_avg_pool2d) \
  use(adaptive_avg_pool2d_backward) \
  use(all_gather) \
  use(all_reduce) \
  use(all_to_all) \
  use(assign) \
  use(avg_pool2d) \
  use(avg_pool2d_backward) \
  use(batch_norm) \
  use(batch_norm_apply) \
  use(batch_norm_backward) \
  use(batch_norm_inference) \
  use(batch_norm_statistics) \
  use(blend) \
  use(cast) \
  use(channel_slice) \
  use(channel_sum) \
  use(clip_factor) \
  use(compress) \
  use(concat) \
  use(conv2d) \
  use(conv2d_backward_data) \
  use(conv2d_backward_filter) \
  use(conv2d_normalized) \
  use(conv2d_normalized_backward_filter) \
  use(cross_entropy) \
  use(cross_entropy_backward) \
  use(decompress) \
  use(dropout) \
  use(elementwise) \
  use(fill) \
  use(from_neighbour) \
  use(gather) \
  use(gather_pieces) \
  use(global_avg_pool) \
  use(global_avg_pool_backward) \
  use(group_norm) \
  use(group_norm_backward) \
  use(interpolate) \
  use(interpolate_backward) \
  use(linear) \
  use(linear_backward_data) \
  use(linear_backward_filter) \
  use(loss_scale_update) \
  use(matmul) \
  use(max_pool2d) \
  use(max_pool2d_backward) \
  use(own_piece) \
  use(permute) \
  use(random) \
  use(receive) \
  use(reduce) \
  use(reduce_scatter) \
  use(relu) \
  use(relu6) \
  use(relu6_backward) \
  use(relu_backward) \
  use(scale) \
  use(scale_by) \
  use(scatter_sum) \
  use(sgd_update) \
  use(shard_batch_norm) \
  use(send) \
  use(shard_number) \
  use(shard_rows) \
  use(slice_sum) \
  use(softmax) \
  use(softmax_backward) \
  use(sum) \
  use(top_k) \
  use(weighted_sum) \
  use(weighted_sum_backward) \
  use(window)
// clang-format on

namespace braid {

struct OwnKernel {
  std::string_view op;
  Implementations (*factory)(const KernelSpec& spec);
  KernelTraits traits = {};
};

#define BRAID_DECLARE_KERNEL(op) Implementations make_##op(const KernelSpec& spec);
namespace cpu {
BRAID_FOR_EACH_KERNEL(BRAID_DECLARE_KERNEL)
std::span<const OwnKernel> own_kernels();
}  // namespace cpu
namespace cuda {
BRAID_FOR_EACH_KERNEL(BRAID_DECLARE_KERNEL)
std::span<const OwnKernel> own_kernels();
}  // namespace cuda
#undef BRAID_DECLARE_KERNEL

}  // namespace braid
