// Shapes as users know them from elsewhere, and the messages for shapes that do not fit.

#include <doctest/doctest.h>

#include "core/graph/op.h"
#include "ops/conv/conv2d.h"
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/random.h"
#include "ops/elementwise/weighted_sum.h"
#include "ops/index/gather.h"
#include "ops/index/top_k.h"
#include "ops/layout/concat.h"
#include "ops/layout/reshape.h"
#include "ops/layout/strided_copy.h"
#include "ops/loss/cross_entropy.h"
#include "ops/matmul/linear.h"
#include "ops/norm/batch_norm.h"
#include "ops/norm/group_norm.h"
#include "ops/optimizer/blend.h"
#include "ops/optimizer/clip_factor.h"
#include "ops/optimizer/loss_scale.h"
#include "ops/optimizer/optimizer.h"
#include "ops/pool/interpolate.h"
#include "ops/pool/pool.h"
#include "tests/error_of.h"

using namespace braid;

namespace {

using Inputs = std::vector<ValueDesc>;

std::vector<OutputDesc> infer(const Op& op, const Inputs& inputs) {
  std::vector<OutputDesc> outputs;
  op.infer(inputs, outputs);
  return outputs;
}

/// Describe values.
ValueDesc f32(const Shape& shape) { return {DType::f32, shape}; }
ValueDesc f64(const Shape& shape) { return {DType::f64, shape}; }
ValueDesc bf16(const Shape& shape) { return {DType::bf16, shape}; }

struct BadCase {
  OpPtr op;
  Inputs inputs;
  std::string_view message;  ///< part of what the user must read
};

template <class T, class... Arguments>
OpPtr make(Arguments&&... arguments) {
  return std::make_shared<T>(std::forward<Arguments>(arguments)...);
}

const std::vector<BadCase>& bad_cases() {
  static const ValueDesc labels{DType::i32, {4}};
  static const ValueDesc step{DType::i32, {}};
  static const std::vector<BadCase> cases = {
      {make<ops::Conv2d>(Conv2dOptions{}), {f32({1, 4, 4, 3})}, "[conv2d] expected 2 inputs, got 1"},
      {make<ops::Conv2d>(Conv2dOptions{}),
       {f32({16, 28, 28, 32}), f32({128, 3, 3, 64})},
       "[conv2d] expected 64 input channels (filter is [128,3,3,64], groups 1), got 32 (input is [16,28,28,32])"},
      {make<ops::Conv2d>(Conv2dOptions{}),
       {f32({1, 4, 3}), f32({1, 3, 3, 3})},
       "expected an input of shape [N,H,W,C], got [1,4,3]"},
      {make<ops::Conv2d>(Conv2dOptions{}),
       {f32({1, 2, 5, 1}), f32({1, 3, 3, 1})},
       "does not fit into the padded input"},
      {make<ops::Conv2d>(Conv2dOptions{.dilation = 2}),
       {f32({1, 4, 4, 1}), f32({1, 3, 3, 1})},
       "with dilation 2x2 does not fit"},
      {make<ops::Conv2d>(Conv2dOptions{.groups = 2}),
       {f32({1, 4, 4, 4}), f32({3, 1, 1, 2})},
       "expected output channels divisible by 2 groups, got 3"},
      {make<ops::Conv2d>(Conv2dOptions{}),
       {f32({1, 4, 4, 1}), {DType::f64, {1, 1, 1, 1}}},
       "expected a filter of f32, got f64"},
      {make<ops::Conv2d>(Conv2dOptions{}), {{DType::i32, {1, 4, 4, 1}}, f32({1, 1, 1, 1})}, "of a floating type"},
      {make<ops::Conv2dBackwardData>(Conv2dOptions{}, Shape{1, 4, 4, 1}),
       {f32({1, 4, 4, 2}), f32({2, 3, 3, 1})},
       "expected an output gradient of shape [1,2,2,2], got [1,4,4,2]"},
      {make<ops::Conv2dBackwardFilter>(Conv2dOptions{}, Shape{2, 3, 3, 1}),
       {f32({1, 4, 4, 1}), f32({1, 4, 4, 2})},
       "expected an output gradient of shape [1,2,2,2], got [1,4,4,2]"},
      {make<ops::Linear>(), {f32({2, 3}), f32({5, 4})}, "[linear] expected 4 input features (weight is [5,4]), got 3"},
      {make<ops::Linear>(), {f32({2, 3}), f32({5, 3}), f32({3})}, "expected a bias of shape [5], got [3]"},
      {make<ops::LinearBackwardData>(), {f32({2, 4}), f32({5, 3})}, "expected 5 output features"},
      {make<ops::LinearBackwardFilter>(), {f32({2, 4}), f32({3, 4})}, "expected equal batch sizes"},
      {make<ops::ChannelSum>(), {f32({})}, "[channel_sum] expected an input of shape [...,C], got a scalar"},
      {make<ops::BatchNorm>(BatchNormOptions{}),
       {f32({1, 3}), f32({3}), f32({3}), f32({3}), f32({3})},
       "[batch_norm] expected more than one element per channel in training, got an input of shape [1,3]"},
      {make<ops::BatchNorm>(BatchNormOptions{}),
       {f32({2, 3}), f32({4}), f32({3}), f32({3}), f32({3})},
       "expected a scale of shape [3], got [4]"},
      {make<ops::BatchNorm>(BatchNormOptions{.add = true}),
       {f32({2, 3}), f32({3}), f32({3}), f32({3}), f32({3}), f32({3, 2})},
       "expected a residual of shape [2,3], got [3,2]"},
      {make<ops::BatchNormInference>(BatchNormOptions{}), {f32({2, 3})}, "[batch_norm_inference] expected 5 inputs"},
      {make<ops::BatchNormBackward>(BatchNormOptions{.activation = Activation::relu}),
       {f32({2, 3}), f32({2, 3}), f32({3}), f32({3}), f32({3})},
       "[batch_norm_backward] expected 6 inputs, got 5"},
      {make<ops::MaxPool2d>(PoolOptions{.window = 3}), {f32({1, 2, 5, 1})}, "the window 3x3 does not fit"},
      {make<ops::AvgPool2d>(PoolOptions{.window = 5, .stride = 3, .ceil_mode = true}),
       {f32({1, 2, 5, 1})},
       "the window 5x5 does not fit into the input [1,2,5,1] with padding 0x0, not even with its end outside"},
      {make<ops::MaxPool2d>(PoolOptions{.window = 17}), {f32({1, 32, 32, 1})}, "a window of at most 256 places"},
      {make<ops::AvgPool2d>(PoolOptions{.window = 3, .padding = 2}),
       {f32({1, 5, 5, 1})},
       "expected padding between 0 and half the window 3x3, got 2x2"},
      {make<ops::AvgPool2d>(PoolOptions{.stride = 0}), {f32({1, 5, 5, 1})}, "stride of at least 1"},
      {make<ops::MaxPool2d>(PoolOptions{.window = 2, .padding = 1}), {f32({1, 0, 5, 1})}, "at least one pixel"},
      {make<ops::MaxPool2dBackward>(PoolOptions{}, Shape{1, 4, 4, 1}),
       {f32({1, 2, 2, 1}), f32({1, 2, 2, 1})},
       "expected places of maxima of u8, got f32"},
      {make<ops::AdaptiveAvgPool2d>(7), {f32({2, 0, 3, 4})}, "an image of at least one pixel, got [2,0,3,4]"},
      {make<ops::AdaptiveAvgPool2dBackward>(Shape{2, 5, 5, 3}),
       {f32({2, 2, 4, 7})},
       "expected an output gradient of shape [2,2,4,3], got [2,2,4,7]"},
      {make<ops::GlobalAvgPool>(), {f32({2, 0, 3, 4})}, "an image of at least one pixel"},
      {make<ops::Relu>(), {step}, "[relu] expected an input of a floating type, got i32"},
      {make<ops::ReluBackward>(), {f32({2}), f32({3})}, "[relu_backward] expected an output of shape [2], got [3]"},
      {make<ops::Relu6>(), {step}, "[relu6] expected an input of a floating type, got i32"},
      {make<ops::Relu6Backward>(), {f32({2}), f32({3})}, "[relu6_backward] expected an output of shape [2], got [3]"},
      {make<ops::Scale>(2.0), {step}, "[scale] expected an input of a floating type, got i32"},
      {make<ops::Sum>(), {}, "[sum] expected at least one input"},
      {make<ops::Sum>(), {f32({2}), f32({3})}, "[sum] expected an input of shape [2], got [3]"},
      {make<ops::WeightedSum>(), {f32({0})}, "[weighted_sum] expected weights and at least one input, got 1 inputs"},
      {make<ops::WeightedSum>(),
       {f32({1}), f32({3}), f32({3})},
       "[weighted_sum] expected weights of shape [2], got [1]"},
      {make<ops::WeightedSum>(),
       {f32({2}), f32({3}), f32({4})},
       "[weighted_sum] expected an input of shape [3], got [4]"},
      {make<ops::WeightedSumBackward>(),
       {f32({3}), f32({1}), f32({4})},
       "[weighted_sum_backward] expected an input of shape [3], got [4]"},
      {make<ops::Cast>(DType::i32), {f32({2})}, "[cast] expected a floating type to cast to, got i32"},
      {make<ops::Gather>(1, ops::GatherAttributes::kEveryIndex),
       {f32({2, 3, 4}), {DType::i32, {2, 3, 2}}},
       "indices like [2,3,4], or with extents of 1, in front of axis 1 and behind it, got indices of shape [2,3,2]"},
      {make<ops::Gather>(1, ops::GatherAttributes::kEveryIndex), {f32({2}), {DType::i32, {2}}}, "one of its axes"},
      {make<ops::Gather>(0, ops::GatherAttributes::kEveryIndex),
       {f32({2}), f32({2})},
       "[gather] expected indices of i32"},
      {make<ops::ScatterSum>(ops::GatherAttributes{0, 0}, -1), {f32({2}), {DType::i32, {2}}}, "an extent from 0"},
      {make<ops::TopK>(4, true), {f32({2, 3})}, "k between 0 and the last extent of the input, got 4 (input is [2,3])"},
      {make<ops::Random>(ValueDesc{DType::i32, {2}}, true, 1u, 0u), {{DType::i32, {}}}, "an output of a floating type"},
      {make<ops::Concat>(), {f32({2, 3}), f32({3, 3})}, "agree in all but the last dimension, got [2,3] and [3,3]"},
      {make<ops::ChannelSlice>(2, 3), {f32({2, 4})}, "channels 2 to 5 are not all in an input of shape [2,4]"},
      {make<ops::SliceSum>(std::vector<std::int64_t>{0, 3}, 2),
       {f32({2, 4}), f32({2, 4})},
       "[slice_sum] channels 3 to 5 are not all in an input of shape [2,4]"},
      {make<ops::SliceSum>(std::vector<std::int64_t>{0, 0}, 2),
       {f32({2, 4}), f32({3, 4})},
       "[slice_sum] expected inputs that agree in all but the last dimension, got [2,4] and [3,4]"},
      {make<ops::Permute>(std::vector{0, 0}),
       {f32({2, 3})},
       "[permute] expected each axis of an input of shape [2,3] once"},
      {make<ops::Permute>(std::vector{0}),
       {f32({2, 3})},
       "[permute] expected each axis of an input of shape [2,3] once"},
      {make<ops::Window>(std::vector<std::int64_t>{0}, Shape{2}, 0.0),
       {f32({2, 3})},
       "[window] expected as many dimensions as an input of shape [2,3]"},
      {make<ops::Window>(std::vector<std::int64_t>{0}, Shape{2}, -1.0),
       {{DType::u8, {2}}},
       "[window] u8 cannot hold -1"},
      {make<ops::Window>(std::vector<std::int64_t>{0}, Shape{2}, 0.5), {labels}, "[window] i32 cannot hold 0.5"},
      {make<ops::Matmul>(MatmulOptions{}), {f32({3}), f32({3, 2})}, "[matmul] expected inputs of shape [...,M,K]"},
      {make<ops::Matmul>(MatmulOptions{}),
       {f32({2, 3}), f32({2, 3})},
       "[matmul] expected 3 rows of the second matrix, got 2 (inputs are [2,3] and [2,3]: matmul{transpose_a: false"},
      {make<ops::Matmul>(MatmulOptions{}),
       {f32({4, 2, 3}), f32({5, 3, 2})},
       "[matmul] expected equal axes before the matrices, or none in one input, got [4,2,3] and [5,3,2]"},
      {make<ops::Interpolate>(Extent2d(0), 1.0, 1.0, Interpolation::nearest),
       {f32({1, 2, 2, 3})},
       "[interpolate] expected images of at least one pixel, got [1,2,2,3] to become 0x0"},
      {make<ops::Interpolate>(Extent2d(2), 0.0, 1.0, Interpolation::nearest),
       {f32({1, 2, 2, 3})},
       "[interpolate] expected steps above 0, got 0 and 1"},
      {make<ops::GroupNorm>(4, 1e-5),
       {f32({1, 2, 6}), f32({6}), f32({6})},
       "[group_norm] expected 6 channels of at least one element in groups of equal size, got 4 groups"},
      {make<ops::GroupNorm>(1, 1e-5), {f32({1, 0, 6}), f32({6}), f32({6})}, "of at least one element"},
      {make<ops::GroupNorm>(2, 1e-5), {bf16({1, 2, 6}), bf16({6}), f32({6})}, "expected a scale of f32, got bf16"},
      {make<ops::Dropout>(0.5, 0, 0), {f32({2}), f32({})}, "expected a step number of i32, got f32"},
      {make<ops::Dropout>(0.5, 0, 0),
       {f32({2}), {DType::i32, {}}, f32({})},
       "expected the number of a shard of i32, got f32"},
      {make<ops::CrossEntropy>(0.0), {f32({3, 10}), labels}, "expected labels of shape [3], got [4]"},
      {make<ops::CrossEntropy>(0.0), {f32({10, 0}), {DType::i32, {10}}}, "expected at least one class"},
      {make<ops::CrossEntropy>(0.0), {f32({3, 10}), f32({3, 9})}, "expected targets of shape [3,10], got [3,9]"},
      {make<ops::CrossEntropyBackward>(0.0), {f32({1}), f32({4, 10}), labels}, "expected a loss gradient of shape []"},
      {make<ops::Accuracy>(1), {f32({4, 10}), f32({4})}, "[accuracy] expected labels of i32, got f32"},
      {make<ops::SgdUpdate>(SgdOptions{.momentum = 0.9}),
       {f64({}), f32({2}), f32({2})},
       "[sgd_update] expected 1 scalars and 3 inputs per parameter, got 3 inputs"},
      {make<ops::SgdUpdate>(SgdOptions{}), {f64({}), f32({2}), f32({3})}, "expected a gradient or moment of shape [2]"},
      {make<ops::AdamUpdate>(AdamOptions{}),
       {f64({}), f32({}), f32({2}), f32({2}), f32({2}), f32({2})},
       "[adam_update] expected a step number of i32, got f32"},
      {make<ops::SgdUpdate>(SgdOptions{.scaled = true}),
       {f64({}), f64({2}), f32({2}), f32({2})},
       "[sgd_update] expected a gradient's factor of shape [], got [2]"},
      {make<ops::SgdUpdate>(SgdOptions{}), {f64({}), bf16({2}), bf16({2})}, "expected a parameter of f32, got bf16"},
      {make<ops::LossScaleUpdate>(LossScaleOptions{}),
       {f32({}), step, step},
       "[loss_scale_update] expected 3 states and at least one gradient, got 3 inputs"},
      {make<ops::LossScaleUpdate>(LossScaleOptions{}),
       {f32({}), f32({}), step, f32({2})},
       "expected a count of good steps of i32, got f32"},
      {make<ops::LossScaleUpdate>(LossScaleOptions{}),
       {f32({}), step, step, step},
       "expected a gradient of a floating type, got i32"},
      {make<ops::SgdUpdate>(SgdOptions{.rounded = true}),
       {f64({}), f32({2}), bf16({2}), f32({2})},
       "[sgd_update] expected a copy of bf16, got f32"},
      {make<ops::SgdUpdate>(SgdOptions{.rounded = true}),
       {f64({}), f64({2}), bf16({2}), bf16({2})},
       "[sgd_update] expected a parameter of f32, got f64"},
      {make<ops::ClipFactor>(ClipOptions{.scaled = true}),
       {f64({})},
       "[clip_factor] expected 1 scalars and at least one gradient, got 1 inputs"},
      {make<ops::ClipFactor>(ClipOptions{}), {step}, "expected a gradient of a floating type, got i32"},
      {make<ops::Blend>(), {f64({2}), f32({3})}, "[blend] expected coefficients and pairs of tensors, got 2 inputs"},
      {make<ops::Blend>(), {f64({}), f32({3}), f32({3})}, "[blend] expected coefficients of shape [2], got []"},
      {make<ops::Blend>(), {f64({2}), bf16({3}), bf16({3})}, "[blend] expected a tensor of f32, got bf16"},
      {make<ops::ScaleBy>(), {f32({2}), f32({1})}, "[scale_by] expected a factor of shape [], got [1]"},
      {make<ops::ScaleBy>(), {bf16({2}), bf16({})}, "[scale_by] expected a factor of f32, got bf16"},
      {make<ops::CrossEntropy>(0.0), {bf16({4, 10}), labels}, "[cross_entropy] expected logits of f32, got bf16"},
      {make<ops::BatchNorm>(BatchNormOptions{}),
       {bf16({2, 3}), bf16({3}), f32({3}), f32({3}), f32({3})},
       "[batch_norm] expected a scale of f32, got bf16"},
      {make<ops::BatchNormBackward>(BatchNormOptions{}),
       {bf16({2, 3}), f32({2, 3}), f32({3}), f32({3}), f32({3})},
       "[batch_norm_backward] expected an input of bf16, got f32"},
      {make<ops::Conv2dBackwardFilter>(Conv2dOptions{}, Shape{2, 3, 3, 1}),
       {bf16({1, 4, 4, 1}), f32({1, 2, 2, 2})},
       "expected an output gradient of bf16, got f32"},
      {make<ops::ReluBackward>(), {bf16({2}), f32({2})}, "[relu_backward] expected an output of bf16, got f32"},
      {make<ops::Reshape>(Shape{2, 3}), {f32({7})}, "[reshape] expected 6 elements for shape [2,3], got 7"},
  };
  return cases;
}

Shape pooled(const PoolOptions& options, std::int64_t extent) {
  return infer(ops::MaxPool2d(options), {f32({2, extent, extent, 3})})[0].shape;
}

}  // namespace

TEST_CASE("shapes that do not fit are refused with what was expected and what was given") {
  for (const BadCase& bad : bad_cases()) {
    const std::string error = testing::error_of<ShapeError>([&] { infer(*bad.op, bad.inputs); });
    CAPTURE(error);
    CAPTURE(bad.message);
    CHECK(testing::contains(error, bad.message));
  }
}

TEST_CASE("attributes out of range are refused when the op is made") {
  CHECK_THROWS_AS(ops::Conv2d({.stride = 0}), ShapeError);
  CHECK_THROWS_AS(ops::Conv2d({.padding = -1}), ShapeError);
  CHECK_THROWS_AS(ops::Conv2d({.groups = 0}), ShapeError);
  CHECK_THROWS_AS(ops::Dropout(1.0, 0, 0), ShapeError);
  CHECK_THROWS_AS(ops::CrossEntropy(1.0), ShapeError);
  CHECK_THROWS_AS(ops::Accuracy(0), ShapeError);
  CHECK_THROWS_AS(ops::AdaptiveAvgPool2d({3, 0}), ShapeError);
  CHECK_THROWS_AS(ops::LossScaleUpdate({.growth = 0.5}), Error);
  CHECK_THROWS_AS(ops::LossScaleUpdate({.backoff = 1}), Error);
  CHECK_THROWS_AS(ops::LossScaleUpdate({.growth_interval = 0}), Error);
}

TEST_CASE("a convolution has the extents of the textbook formula") {
  const auto shape = [](const Conv2dOptions& options, const Shape& x, const Shape& w) {
    return infer(ops::Conv2d(options), {f32(x), f32(w)})[0].shape;
  };
  CHECK(shape({.stride = 2, .padding = 3}, {1, 224, 224, 3}, {64, 7, 7, 3}) == Shape{1, 112, 112, 64});
  CHECK(shape({.stride = 2, .padding = 1}, {8, 56, 55, 64}, {128, 3, 3, 64}) == Shape{8, 28, 28, 128});
  CHECK(shape({.padding = 2, .dilation = 2}, {1, 9, 9, 4}, {4, 3, 3, 4}) == Shape{1, 9, 9, 4});
}

TEST_CASE("pooling rounds its extents as PyTorch does") {
  CHECK(pooled({.window = 2, .stride = 2}, 5) == Shape{2, 2, 2, 3});
  CHECK(pooled({.window = 2, .stride = 2, .ceil_mode = true}, 5) == Shape{2, 3, 3, 3});
  CHECK(pooled({.window = 3, .stride = 2, .ceil_mode = true}, 112) == Shape{2, 56, 56, 3});
  CHECK(pooled({.window = 3, .stride = 2, .padding = 1}, 112) == Shape{2, 56, 56, 3});
  CHECK(pooled({.window = 3, .stride = 2, .padding = 1, .ceil_mode = true}, 6) == Shape{2, 4, 4, 3});
  // The third window would start in the padding on the far side, so it is dropped.
  CHECK(pooled({.window = 2, .stride = 2, .padding = 1, .ceil_mode = true}, 3) == Shape{2, 2, 2, 3});
  // One window, which ends outside.
  CHECK(pooled({.window = 5, .stride = 4, .ceil_mode = true}, 2) == Shape{2, 1, 1, 3});
  CHECK(pooled({.window = 7, .stride = 5, .padding = 1, .ceil_mode = true}, 1) == Shape{2, 1, 1, 3});
}

TEST_CASE("a view keeps its elements, and an update its parameter") {
  CHECK(infer(ops::Reshape(Shape{6}), {f32({2, 3})})[0].views == 0);
  const auto outputs = infer(ops::SgdUpdate({.momentum = 0.9}), {f64({}), f32({2}), f32({2}), f32({2})});
  REQUIRE(outputs.size() == 2);
  CHECK(outputs[0].overwrites == 1);
  CHECK(outputs[1].overwrites == 3);
}
