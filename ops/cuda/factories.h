#pragma once
// The factories of the CUDA kernels, by the file that holds them.

#include "ops/kernels.h"

namespace braid::cuda {

// avg_pool.cu
std::unique_ptr<Kernel> make_adaptive_avg_pool2d(const KernelSpec& spec);
std::unique_ptr<Kernel> make_adaptive_avg_pool2d_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_avg_pool2d(const KernelSpec& spec);
std::unique_ptr<Kernel> make_avg_pool2d_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_global_avg_pool(const KernelSpec& spec);
std::unique_ptr<Kernel> make_global_avg_pool_backward(const KernelSpec& spec);

// batch_norm.cu
std::unique_ptr<Kernel> make_batch_norm(const KernelSpec& spec);
std::unique_ptr<Kernel> make_batch_norm_apply(const KernelSpec& spec);
std::unique_ptr<Kernel> make_batch_norm_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_batch_norm_inference(const KernelSpec& spec);

// channel_sum.cu
std::unique_ptr<Kernel> make_channel_sum(const KernelSpec& spec);

// concat.cu
std::unique_ptr<Kernel> make_channel_slice(const KernelSpec& spec);
std::unique_ptr<Kernel> make_concat(const KernelSpec& spec);
std::unique_ptr<Kernel> make_slice_sum(const KernelSpec& spec);

// conv2d.cpp
std::vector<Implementation> make_conv2d(const KernelSpec& spec);
std::vector<Implementation> make_conv2d_backward_data(const KernelSpec& spec);
std::vector<Implementation> make_conv2d_backward_filter(const KernelSpec& spec);

// cross_entropy.cu
std::unique_ptr<Kernel> make_accuracy(const KernelSpec& spec);
std::unique_ptr<Kernel> make_cross_entropy(const KernelSpec& spec);
std::unique_ptr<Kernel> make_cross_entropy_backward(const KernelSpec& spec);

// dropout.cu
std::unique_ptr<Kernel> make_dropout(const KernelSpec& spec);

// elementwise.cu
std::unique_ptr<Kernel> make_cast(const KernelSpec& spec);
std::unique_ptr<Kernel> make_fill(const KernelSpec& spec);
std::unique_ptr<Kernel> make_relu(const KernelSpec& spec);
std::unique_ptr<Kernel> make_relu6(const KernelSpec& spec);
std::unique_ptr<Kernel> make_relu6_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_relu_backward(const KernelSpec& spec);
std::unique_ptr<Kernel> make_scale(const KernelSpec& spec);
std::unique_ptr<Kernel> make_scale_by(const KernelSpec& spec);
std::unique_ptr<Kernel> make_sum(const KernelSpec& spec);

// loss_scale.cu
std::unique_ptr<Kernel> make_loss_scale_update(const KernelSpec& spec);

// max_pool.cu
std::unique_ptr<Kernel> make_max_pool2d(const KernelSpec& spec);
std::unique_ptr<Kernel> make_max_pool2d_backward(const KernelSpec& spec);

// optimizer.cu
std::unique_ptr<Kernel> make_adam_update(const KernelSpec& spec);
std::unique_ptr<Kernel> make_sgd_update(const KernelSpec& spec);

// weighted_sum.cu
std::unique_ptr<Kernel> make_weighted_sum(const KernelSpec& spec);
std::unique_ptr<Kernel> make_weighted_sum_backward(const KernelSpec& spec);

// linear.cpp
std::unique_ptr<Kernel> make_linear(const KernelSpec& spec);
std::unique_ptr<Kernel> make_linear_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> make_linear_backward_filter(const KernelSpec& spec);

}  // namespace braid::cuda
