// Mistakes with functions on tensors and with layers.

#include <doctest/doctest.h>

#include <limits>
#include <type_traits>

#include "braid/braid.h"
#include "tests/api/misuse.h"

namespace braid {

namespace {

using testing::check_misuses;

template <class... Extents>
Array zeros(Extents... extents) {
  return {DType::f32, Shape{extents...}};
}

Array zeros_of(DType dtype, const Shape& shape) { return {dtype, shape}; }

}  // namespace

// Shapes that do not fit are those of tests/ops/infer_test.cpp. Here are what only functions check, and extents beyond
// all bounds.
TEST_CASE("mistakes with functions on tensors say what is wrong") {
  Session session({.device = "cpu", .streams = 1});
  Step step = session.step();
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor image = zeros(2, 8, 8, 3), row = zeros(2, 5), labels = zeros_of(DType::i32, {2});
  const Array filter = zeros(4, 3, 3, 3);
  check_misuses({
      {"a bias of other channels", "[conv2d]", [&] { conv2d(image, filter, zeros(5)); }},
      {"a linear layer of other features", "got 3 (input is [2,8,8,3])", [&] { linear(image, zeros(4, 7)); }},
      {"a clamp upside down", "[clamp]", [&] { clamp(row, 1, -1); }},
      {"labels as floats", "[cross_entropy]", [&] { cross_entropy(row, zeros(2)); }},
      {"two open extents", "[shape] expected extents of at least 0",
       [&] {
         reshape(row, Shape{-1, -1});
       }},
      {"extents that leave no whole number", "[reshape] expected extents that divide 10 elements",
       [&] {
         reshape(row, {3, -1});
       }},
      {"a padding beyond all bounds", "[pad]",
       [&] {
         pad(row, {{0, 0}, {0, kHuge}});
       }},
      {"a negative padding beyond all bounds", "[pad]",
       [&] {
         pad(row, {{0, 0}, {std::numeric_limits<std::int64_t>::min(), 0}});
       }},
      {"parts beyond all bounds", "[split]",
       [&] {
         split(row, {kHuge, kHuge, kHuge, kHuge});
       }},
      {"very many chunks", "[chunk]", [&] { chunk(zeros(2, 0), std::int64_t{1} << 40); }},
      {"a convolution's padding beyond all bounds", "[conv2d]", [&] { conv2d(image, filter, {.padding = kHuge}); }},
      {"a dilation beyond all bounds", "[conv2d]", [&] { conv2d(image, filter, {.dilation = kHuge}); }},
      {"a transposed convolution's stride beyond all bounds", "[conv2d]",
       [&] { conv_transpose2d(image, zeros(3, 3, 3, 4), {.stride = kHuge}); }},
      {"a window beyond all bounds", "[max_pool2d]",
       [&] { max_pool2d(image, {.window = kHuge, .padding = kHuge / 2}); }},
      {"an average of too many pixels", "[adaptive_avg_pool2d]",
       [&] { adaptive_avg_pool2d(image, std::int64_t{1} << 32); }},
      {"an image beyond all bounds", "[interpolate]", [&] { interpolate(image, {.size = std::int64_t{1} << 31}); }},
      {"no op", "[apply_op]", [&] { apply_op(nullptr, {row}); }},
      {"nothing to join", "at least one input", [&] { concat(std::span<const Tensor>()); }},
      {"a pool of a row", "[max_pool2d]", [&] { max_pool2d(row, {.window = 2}); }},
      {"a negative epsilon", "[layer_norm] expected an epsilon of at least 0",
       [&] { layer_norm(row, zeros(5), zeros(5), -1); }},
      {"an infinite scale", "[interpolate]", [&] { interpolate(image, {.scale = kInfinity}); }},
      {"a residual without options.add", "[batch_norm]",
       [&] {
         BatchNormLayer& norm = session.add<BatchNormLayer>("unused", 3);
         const auto& p = norm.tensors();
         batch_norm(image, {*p[0], *p[1], *p[2], *p[3]}, {}, true, image);
       }},
      // Functions that call others report errors under their own name.
      {"a square of labels", "[square]", [&] { square(labels); }},
      {"clamped labels", "[clamp]", [&] { clamp(labels, 0, 1); }},
      {"a sum of two types", "[add] expected an input of f32, got f64",
       [&] { row + Tensor(zeros_of(DType::f64, row.shape())); }},
      {"a distance of labels", "[mse_loss]", [&] { mse_loss(labels, labels); }},
      {"a scale of another type", "[layer_norm]", [&] { layer_norm(row, zeros_of(DType::f64, {5}), zeros(5)); }},
      {"a transposed filter of another type", "[conv_transpose2d]",
       [&] {
         conv_transpose2d(image, zeros_of(DType::f64, {3, 2, 2, 4}));
       }},
      {"a cast to integers", "[cast]", [&] { cast(row, DType::i32); }},
      {"assigning a value of another type", "[assign]",
       [&] {
         Parameter& w = session.add("w", {DType::f32, {2, 5}}, ValueKind::parameter);
         assign(w, zeros_of(DType::f64, {2, 5}));
       }},
  });
}

TEST_CASE("mistakes with layers and networks say what is wrong") {
  Session session({.device = "cpu", .streams = 1});
  check_misuses({
      {"groups that do not divide the channels", "expected groups that divide 3 and 4 channels, got 2",
       [&] { session.add<ConvLayer>("b", 3, 4, 3, {.groups = 2}); }},
      {"no groups", "expected groups that divide", [&] { session.add<ConvLayer>("b", 3, 4, 3, {.groups = 0}); }},
      {"a transposed convolution without groups", "expected groups that divide",
       [&] { session.add<ConvTransposeLayer>("b", 3, 4, 3, {.groups = 0}); }},
      {"two children of one name", "there is a tensor named 'twins.fc.weight' already",
       [&] {
         struct Twins final : Module {
           explicit Twins(Context& context) : Module(context) {
             add<LinearLayer>("fc", 2, 2);
             add<LinearLayer>("fc", 2, 2);
           }
         };
         session.add<Twins>("twins");
       }},
  });
}

TEST_CASE("mistakes with data say what is wrong") {
  Loader loader(synthetic({.size = 8, .shape = {4, 4, 1}, .classes = 2}), {});
  Batch batch;
  loader.next(batch);
  check_misuses({
      {"a tensor that a batch does not have", "tensor", [&] { (void)batch[7]; }},
      {"weights whose sum overflows", "sum of the weights",
       [] {
         WeightedRandomSampler({1e308, 1e308}, 2);
       }},
      {"elements that do not fill the shape", "expected 6 elements",
       [] {
         Array::from<float>({1, 2}, {2, 3});
       }},
      {"reading floats as integers", "the array holds f32", [] { zeros(2).as<std::int32_t>(); }},
  });
}

// What does not compile. Tensors are not made of numbers, and steps are not ignored (warnings: [[nodiscard]]).
static_assert(!std::is_constructible_v<Tensor, Tape&, ValueId>);
static_assert(!std::is_copy_constructible_v<Step> && !std::is_copy_constructible_v<Session>);
static_assert(!std::is_copy_constructible_v<Module> && !std::is_move_constructible_v<Session>);
static_assert(!std::is_constructible_v<Step, Session&>);
static_assert(!std::is_constructible_v<SGD, std::vector<const Parameter*>, SGD::Options>);
template <class T>
concept HasExtentsOfTemporary = requires(T tensor) {
  {tensor.shape().extents().size()};
};
static_assert(!HasExtentsOfTemporary<Tensor>);

}  // namespace braid
