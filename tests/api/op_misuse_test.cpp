// Mistakes with functions on tensors and with layers.

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>
#include <type_traits>

#include "braid/braid.h"
#include "tests/api/misuse.h"

namespace braid {

namespace {

using testing::check_misuses;

Array zeros(const Shape& shape, DType dtype = DType::f32) { return {dtype, shape}; }

}  // namespace

TEST_CASE("mistakes with functions on tensors say what is wrong") {
  Session session({.device = "cpu", .streams = 1});
  Step step = session.step();
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  const Tensor image = zeros({2, 8, 8, 3}), row = zeros({2, 5}), labels = zeros({2}, DType::i32);
  check_misuses({
      {"a filter of other channels", "[conv2d] expected",
       [&] {
         conv2d(image, zeros({4, 3, 3, 2}));
       }},
      {"a filter larger than the image", "[conv2d]",
       [&] {
         conv2d(image, zeros({4, 9, 9, 3}));
       }},
      {"a convolution of a row", "[conv2d]",
       [&] {
         conv2d(row, zeros({4, 3, 3, 3}));
       }},
      {"groups that do not divide", "[conv2d]",
       [&] {
         conv2d(image, zeros({4, 3, 3, 1}), {.groups = 2});
       }},
      {"a stride of 0", "[conv2d]",
       [&] {
         conv2d(image, zeros({4, 3, 3, 3}), {.stride = 0});
       }},
      {"a negative padding", "[conv2d]",
       [&] {
         conv2d(image, zeros({4, 3, 3, 3}), {.padding = -1});
       }},
      {"a bias of other channels", "[conv2d]",
       [&] {
         conv2d(image, zeros({4, 3, 3, 3}), zeros({5}));
       }},
      {"f64 beside f32", "[conv2d]",
       [&] {
         conv2d(image, zeros({4, 3, 3, 3}, DType::f64));
       }},
      {"a weight of other inputs", "[linear]",
       [&] {
         linear(row, zeros({4, 6}));
       }},
      {"a linear layer of images", "[linear]",
       [&] {
         linear(image, zeros({4, 3}));
       }},
      {"shapes that do not broadcast", "do not broadcast",
       [&] {
         row* Tensor(zeros({2, 4}));
       }},
      {"adding shapes that do not broadcast", "do not broadcast",
       [&] {
         row + Tensor(zeros({3, 5}));
       }},
      {"adding different types", "expected an input of f32, got f64",
       [&] {
         row + Tensor(zeros({2, 5}, DType::f64));
       }},
      {"the exponential of integers", "[exp]", [&] { exp(labels); }},
      {"a clamp upside down", "[clamp]", [&] { clamp(row, 1, -1); }},
      {"a sum along an axis that is not there", "[sum]", [&] { sum(row, 2); }},
      {"a mean along one axis twice", "[mean]",
       [&] {
         mean(row, {0, 0});
       }},
      {"the largest element of nothing", "[amax]",
       [&] {
         amax(zeros({0, 3}));
       }},
      {"a softmax along an axis that is not there", "[softmax]", [&] { softmax(row, 5); }},
      {"a loss of different shapes", "[mse_loss]",
       [&] {
         mse_loss(row, zeros({2, 1}));
       }},
      {"labels as floats", "[cross_entropy]", [&] { cross_entropy(row, zeros({2})); }},
      {"labels of another batch", "[cross_entropy]", [&] { cross_entropy(row, zeros({3}, DType::i32)); }},
      {"a label smoothing of 2", "[cross_entropy]", [&] { cross_entropy(row, labels, 2); }},
      {"matrices that do not fit", "[matmul]", [&] { matmul(row, row); }},
      {"a product of a vector", "[matmul]", [&] { matmul(zeros({5}), row); }},
      {"other elements", "[reshape]",
       [&] {
         reshape(row, {3, 3});
       }},
      {"two open extents", "[shape] expected extents of at least 0",
       [&] {
         reshape(row, {-1, -1});
       }},
      {"extents that leave no whole number", "[reshape] expected extents that divide 10 elements",
       [&] {
         reshape(row, {3, -1});
       }},
      {"an axis that a shape has not", "[shape] [2,5] has no axis 2", [&] { (void)row.shape()[2]; }},
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
      {"very many chunks", "[chunk]",
       [&] {
         chunk(zeros({2, 0}), std::int64_t{1} << 40);
       }},
      {"a convolution's padding beyond all bounds", "[conv2d]",
       [&] {
         conv2d(image, zeros({4, 3, 3, 3}), {.padding = kHuge});
       }},
      {"a dilation beyond all bounds", "[conv2d]",
       [&] {
         conv2d(image, zeros({4, 3, 3, 3}), {.dilation = kHuge});
       }},
      {"a transposed convolution's stride beyond all bounds", "[conv2d]",
       [&] {
         conv_transpose2d(image, zeros({3, 3, 3, 4}), {.stride = kHuge});
       }},
      {"a window beyond all bounds", "[max_pool2d]",
       [&] { max_pool2d(image, {.window = kHuge, .padding = kHuge / 2}); }},
      {"an average of too many pixels", "[adaptive_avg_pool2d]",
       [&] { adaptive_avg_pool2d(image, std::int64_t{1} << 32); }},
      {"an image beyond all bounds", "[interpolate]", [&] { interpolate(image, {.size = std::int64_t{1} << 31}); }},
      {"no op", "[apply_op]", [&] { apply_op(nullptr, {row}); }},
      {"an order of axes with one twice", "[permute]",
       [&] {
         permute(row, {0, 0});
       }},
      {"an order of other axes", "[permute]",
       [&] {
         permute(row, {0, 1, 2});
       }},
      {"a slice along an axis that is not there", "[slice]", [&] { slice(row, 3, 0, 1); }},
      {"parts that do not add up", "[split]",
       [&] {
         split(row, {2, 2});
       }},
      {"chunks that do not divide", "[chunk]", [&] { chunk(row, 2); }},
      {"paddings for other axes", "[pad]",
       [&] {
         pad(row, {{1, 1}, {0, 0}, {1, 0}});
       }},
      {"nothing to join", "at least one input", [&] { concat(std::span<const Tensor>()); }},
      {"joining other extents", "[concat]",
       [&] {
         concat({row, zeros({3, 5})});
       }},
      {"a pool of a row", "[max_pool2d]", [&] { max_pool2d(row, {.window = 2}); }},
      {"more padding than half the window", "[avg_pool2d]", [&] { avg_pool2d(image, {.window = 2, .padding = 2}); }},
      {"a pool larger than the image", "[max_pool2d]", [&] { max_pool2d(image, {.window = 9}); }},
      {"neither size nor scale", "[interpolate]", [&] { interpolate(image, {}); }},
      {"groups that do not divide the channels", "[group_norm]", [&] { group_norm(image, 2, zeros({3}), zeros({3})); }},
      {"a negative epsilon", "[layer_norm] expected an epsilon of at least 0",
       [&] { layer_norm(row, zeros({5}), zeros({5}), -1); }},
      {"an infinite scale", "[interpolate]",
       [&] { interpolate(image, {.scale = std::numeric_limits<double>::infinity()}); }},
      {"scales of other extents", "[layer_norm]", [&] { layer_norm(row, zeros({4}), zeros({4})); }},
      {"a residual without options.add", "[batch_norm]",
       [&] {
         BatchNormLayer& norm = session.add<BatchNormLayer>("unused", 3);
         const auto& p = norm.tensors();
         batch_norm(image, {*p[0], *p[1], *p[2], *p[3]}, {}, true, image);
       }},
      {"a dropout of everything", "[dropout]", [&] { dropout(row, 1, 0); }},
      // Functions that call others report errors under their own name.
      {"a square of labels", "[square]", [&] { square(labels); }},
      {"clamped labels", "[clamp]", [&] { clamp(labels, 0, 1); }},
      {"a sum of two types", "[add]",
       [&] {
         add(row, zeros({2, 5}, DType::f64));
       }},
      {"a distance of labels", "[mse_loss]", [&] { mse_loss(labels, labels); }},
      {"a scale of another type", "[layer_norm]", [&] { layer_norm(row, zeros({5}, DType::f64), zeros({5})); }},
      {"a transposed filter of another type", "[conv_transpose2d]",
       [&] {
         conv_transpose2d(image, zeros({3, 2, 2, 4}, DType::f64));
       }},
      {"a cast of labels", "[cast]", [&] { cast(labels, DType::f32); }},
      {"assigning a value of another type", "[assign]",
       [&] {
         Parameter& w = session.add("w", {DType::f32, {2, 5}}, ValueKind::parameter);
         assign(w, zeros({2, 5}, DType::f64));
       }},
  });
}

TEST_CASE("mistakes with layers and networks say what is wrong") {
  Session session({.device = "cpu", .streams = 1});
  Step step = session.step();
  check_misuses({
      {"an input of other channels", "[conv2d] expected",
       [&] {
         session.add<ConvLayer>("a", 3, 4, 3)(zeros({1, 8, 8, 2}));
       }},
      {"groups that do not divide the channels", "expected groups that divide 3 and 4 channels, got 2",
       [&] { session.add<ConvLayer>("b", 3, 4, 3, {.groups = 2}); }},
      {"no groups", "expected groups that divide", [&] { session.add<ConvLayer>("b", 3, 4, 3, {.groups = 0}); }},
      {"a transposed convolution without groups", "expected groups that divide",
       [&] { session.add<ConvTransposeLayer>("b", 3, 4, 3, {.groups = 0}); }},
      {"an image of other channels", "expected 3 input channels",
       [&] {
         session.add("c", models::resnet20, {.channels = 3})(zeros({1, 32, 32, 1}));
       }},
      {"an image of which one pixel is left", "expected more than one element per channel",
       [&] {
         session.add("d", models::resnet18, {.stem = models::Stem::image})(zeros({1, 8, 8, 3}));
       }},
      {"a width of 0", "expected a width above 0", [&] { session.add("e", models::resnet20, {.width = 0}); }},
      {"an unknown network", "there is no model 'resnet21'", [&] { models::make_model("resnet21", session, {}); }},
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
      {"images whose size does not halve", "multiples of 16",
       [&] {
         session.add<models::UNet>("f", {.width = 2})(zeros({1, 24, 24, 3}));
       }},
      {"an odd image size", "power of two", [&] { session.add<models::DcganGenerator>("g", {.image_size = 18}); }},
      {"a picture that is no pair of images", "[chunk]",
       [&] {
         session.add<models::Siamese>("h")(zeros({1, 8, 7, 1}));
       }},
  });
}

TEST_CASE("mistakes with data say what is wrong") {
  const auto pictures = synthetic({.size = 8, .shape = {4, 4, 1}, .classes = 2});
  struct Ragged final : Dataset {
    std::int64_t size() const override { return 4; }
    Sample sample(std::int64_t index, Generator&) const override { return {zeros({index + 1})}; }
  };
  struct Faulty final : Dataset {
    std::int64_t size() const override { return 4; }
    Sample sample(std::int64_t, Generator&) const override { throw std::runtime_error("the disc is gone"); }
  };
  const auto first = [](std::shared_ptr<const Dataset> dataset, const LoaderOptions& options = {}) {
    Loader loader(std::move(dataset), options);
    Batch batch;
    loader.next(batch);
    return batch;
  };
  check_misuses({
      {"no dataset", "dataset", [&] { Loader(nullptr); }},
      {"a batch of nothing", "batch_size", [&] { first(pictures, {.batch_size = 0}); }},
      {"a negative number of workers", "workers", [&] { first(pictures, {.workers = -1}); }},
      {"samples of different shapes", "sample", [&] { first(std::make_shared<Ragged>()); }},
      {"a dataset that throws", "the disc is gone", [&] { first(std::make_shared<Faulty>()); }},
      {"a tensor that a batch does not have", "tensor", [&] { (void)first(pictures)[7]; }},
      {"negative weights", "weight",
       [] {
         WeightedRandomSampler({1, -1}, 2);
       }},
      {"weights whose sum overflows", "sum of the weights",
       [] {
         WeightedRandomSampler({1e308, 1e308}, 2);
       }},
      {"a rank outside the world", "rank", [] { DistributedSampler(std::make_shared<SequentialSampler>(8), 2, 2); }},
      {"arrays of different lengths", "",
       [] {
         TensorDataset({zeros({3, 2}), zeros({4})});
       }},
      {"no classes", "classes", [] { synthetic({.classes = 0}); }},
      {"elements that do not fill the shape", "expected 6 elements",
       [] {
         Array::from<float>({1, 2}, {2, 3});
       }},
      {"reading floats as integers", "the array holds f32", [] { zeros({2}).as<std::int32_t>(); }},
      {"a negative extent", "expected extents of at least 0",
       [] {
         Shape({2, -1});
       }},
      {"too many axes", "at most",
       [] {
         Shape({1, 1, 1, 1, 1, 1, 1});
       }},
      {"a checkpoint that is not there", "cannot read",
       [] {
         Session session({.device = "cpu"});
         load_checkpoint("/nowhere/net.safetensors", session, session.parameters());
       }},
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
