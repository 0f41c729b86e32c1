// U-Net, DCGAN and the siamese network.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "models/zoo/tasks/dcgan.h"
#include "models/zoo/tasks/siamese.h"
#include "models/zoo/tasks/unet.h"
#include "runtime/session.h"
#include "tests/models/small_model.h"

namespace braid {
namespace {

/// A step of this loss, after which each parameter has a gradient that is not all zero.
void check_gradients(Session& session, const Module& model, const std::function<Tensor()>& record) {
  Step step = session.step();
  const Tensor loss = record();
  backward(loss);
  std::vector<Tensor> gradients;
  for (const Parameter* parameter : model.parameters()) gradients.push_back(gradient(*parameter).keep());
  step.run();
  CHECK(std::isfinite(loss.item()));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    CAPTURE(model.parameters()[i]->name());
    const Array values = gradients[i].array();
    CHECK(std::ranges::any_of(values.as<float>(), [](float g) { return std::isfinite(g) && g != 0; }));
  }
}

std::set<std::string> names_of(const Module& model) {
  std::set<std::string> names;
  for (const Parameter* tensor : model.tensors()) names.insert(tensor->name());
  return names;
}

/// Parameters of a convolution without bias and of the batch norm after it.
constexpr std::int64_t conv_norm(std::int64_t in, std::int64_t out, std::int64_t area) {
  return in * out * area + 2 * out;
}
constexpr std::int64_t pair(std::int64_t in, std::int64_t out) {
  return conv_norm(in, out, 9) + conv_norm(out, out, 9);
}

TEST_CASE("a U-Net gives each pixel a class, from all its levels") {
  Session session({.device = "cpu", .streams = 2});
  models::UNet net(session, {.classes = 7, .channels = 2, .levels = 2, .width = 4});
  CHECK(net.parameter_count() == pair(2, 4) + pair(4, 8) + pair(8, 16)           // down, down, bottom
                                     + (16 * 8 * 4) + pair(16, 8)                // up: a transposed convolution
                                     + (8 * 4 * 4) + pair(8, 4) + (4 * 7 + 7));  // and the head
  const std::set<std::string> names = names_of(net);
  for (const char* name : {"down0.0.conv.weight", "down1.1.bn.running_var", "bottom.0.bn.bias", "up0.weight",
                           "joined1.0.conv.weight", "head.bias"}) {
    CAPTURE(name);
    CHECK(names.contains(name));
  }
  check_gradients(session, net, [&] {
    const Tensor logits = net(noise({2, 8, 12, 2}));
    CHECK(logits.shape() == Shape{2, 8, 12, 7});
    return cross_entropy(logits, labels_of(logits));
  });
}

TEST_CASE("a U-Net refuses images that do not halve, and options out of range") {
  Session session({.device = "cpu", .streams = 1});
  models::UNet net(session, {.levels = 3, .width = 2});
  const Step step = session.step();
  CHECK_THROWS_WITH_AS(net(noise({1, 16, 12, 3})),
                       "[unet] expected images whose height and width are multiples of 8, got [1,16,12,3]", ShapeError);
  CHECK_THROWS_WITH_AS(net(noise({1, 16, 16, 1})), doctest::Contains("[unet] expected images [N,H,W,3]"), ShapeError);
  for (const models::UNetOptions& options : {models::UNetOptions{.levels = 0}, models::UNetOptions{.width = 0}}) {
    CHECK_THROWS_WITH_AS(models::UNet(session, options), doctest::Contains("[unet] expected at least 1 level"), Error);
  }
}

TEST_CASE("a DCGAN makes images of noise and judges them, with gradients through both") {
  const models::DcganOptions options{.noise = 10, .channels = 2, .image_size = 16, .width = 4};
  Session session({.device = "cpu", .streams = 2});
  auto& generator = session.add<models::DcganGenerator>("generator", options);
  auto& discriminator = session.add<models::DcganDiscriminator>("discriminator", options);
  // 1 → 4 → 8 → 16 pixels, with 8, 4 and 2 channels, and batch norms but after the last; and back.
  CHECK(generator.parameter_count() == conv_norm(10, 8, 16) + conv_norm(8, 4, 16) + 4 * 2 * 16);
  CHECK(discriminator.parameter_count() == 2 * 4 * 16 + conv_norm(4, 8, 16) + 8 * 16);
  CHECK(names_of(generator).contains("generator.conv2.weight"));
  CHECK(names_of(generator).contains("generator.bn1.running_mean"));
  CHECK_FALSE(names_of(generator).contains("generator.bn2.weight"));
  CHECK_FALSE(names_of(discriminator).contains("discriminator.bn0.weight"));
  for (const Module* model : {static_cast<Module*>(&generator), static_cast<Module*>(&discriminator)}) {
    check_gradients(session, *model, [&] {
      const Tensor images = generator(noise({6, 10}));
      CHECK(images.shape() == Shape{6, 16, 16, 2});
      const Tensor logits = discriminator(images);
      CHECK(logits.shape() == Shape{6, 1});
      Array real(DType::f32, {6, 1});
      std::ranges::fill(real.as<float>(), 1.0f);
      return binary_cross_entropy_with_logits(logits, real);
    });
  }
  Step step = session.step();
  const Tensor images = generator(noise({6, 10}));
  step.run();
  const Array pixels = images.array();
  for (const float pixel : pixels.as<float>()) CHECK(std::abs(pixel) < 1);
}

TEST_CASE("a DCGAN's weights start as in its paper") {
  Context context(make_backend(Device{}), 1);
  const models::DcganGenerator generator(context);
  CHECK(generator.parameter_count() == 3576704);  // and the next as PyTorch's example
  const Context::Scope scope(context, "discriminator");
  CHECK(models::DcganDiscriminator(context).parameter_count() == 2765568);
  CHECK(generator.parameters().size() == 5 + 2 * 4);
  for (const Parameter* parameter : generator.parameters()) {
    CAPTURE(parameter->name());
    const Array values = context.read(*parameter);
    double sum = 0, squares = 0;
    for (const float v : values.as<float>()) {
      sum += static_cast<double>(v);
      squares += static_cast<double>(v) * static_cast<double>(v);
    }
    const double count = static_cast<double>(values.size()), mean = sum / count;
    const bool shift = parameter->name().ends_with(".bias"), scale = !shift && values.shape().rank() == 1;
    CHECK(std::abs(mean - (scale ? 1 : 0)) < (shift ? 1e-9 : 5 * 0.02 / std::sqrt(count)));
    if (count > 1000) CHECK(std::sqrt(squares / count - mean * mean) == doctest::Approx(0.02).epsilon(0.1));
  }
}

TEST_CASE("a DCGAN refuses sizes that do not halve, and inputs of other shapes") {
  Session session({.device = "cpu", .streams = 1});
  for (const std::int64_t size : {4, 7, 18, 44, -8}) {
    CAPTURE(size);
    CHECK_THROWS_WITH_AS(models::DcganGenerator(session, {.image_size = size}),
                         doctest::Contains("[dcgan] expected an image_size of 4, 5, 6 or 7 times a power of two"),
                         Error);
  }
  for (const std::int64_t size : {8, 10, 12, 28, 96}) {
    const models::DcganOptions options{.noise = 3, .channels = 1, .image_size = size, .width = 1};
    models::Dcgan both(session, options);
    const Step step = session.step();
    CHECK(both.generate(2).shape() == Shape{2, size, size, 1});
    CHECK(both(noise({2, size, size, 1})).shape() == Shape{2, 2});
  }
  models::DcganGenerator generator(session, {.noise = 5, .image_size = 8, .width = 2});
  auto& discriminator = session.add<models::DcganDiscriminator>("d", {.image_size = 8, .width = 2});
  const Step step = session.step();
  CHECK_THROWS_WITH_AS(generator(noise({2, 6})), "[dcgan] expected noise [N,5], got [2,6]", ShapeError);
  CHECK_THROWS_WITH_AS(discriminator(noise({2, 8, 8, 1})), doctest::Contains("[dcgan] expected images [N,H,W,3]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(discriminator(noise({2, 16, 16, 3})), "[dcgan] expected images of 8x8 pixels, got 16x16",
                       ShapeError);
}

TEST_CASE("a step of a DCGAN trains both networks, each by its own loss") {
  Session session({.device = "cpu", .streams = 2});
  models::Dcgan gan(session, {.noise = 6, .channels = 1, .image_size = 8, .width = 4});
  /// An element of each gradient, by the parameter's name, after backward() of these objectives.
  const auto gradients = [&](const std::vector<std::size_t>& objectives) {
    RandomState random{3};
    const Context::RandomScope scope(session, random);
    Step step = session.step();
    const Tensor labels = Array(DType::i32, {5});
    const TrainingStep training = gan.training_step(noise({5, 8, 8, 1}), labels, labels);
    REQUIRE(training.objectives.size() == 2);
    CHECK(training.logits.shape() == Shape{10, 2});
    CHECK(training.labels.shape() == Shape{10});
    for (const std::size_t i : objectives) backward(std::span(&training.objectives[i], 1));
    std::map<std::string, Tensor> found;
    for (const Parameter* parameter : gan.parameters()) {
      if (has_gradient(*parameter)) found[parameter->name()] = gradient(*parameter).keep();
    }
    step.run();
    std::map<std::string, float> elements;
    for (const auto& [name, tensor] : found) elements[name] = tensor.array().as<float>()[0];
    return elements;
  };
  const auto both = gradients({0, 1}), told = gradients({0}), fooled = gradients({1});
  CHECK(both.size() == gan.parameters().size());
  CHECK(told.size() + fooled.size() == both.size());
  for (const auto& [name, element] : both) {
    CAPTURE(name);
    CHECK(element != 0);
    CHECK(element == (name.starts_with("generator.") ? fooled : told).at(name));
  }
}

TEST_CASE("a siamese network compares two images by one encoder, in either order alike") {
  Session session({.device = "cpu", .streams = 2});
  models::Siamese net(session, {.channels = 2, .width = 4, .features = 6});
  CHECK(net.parameter_count() ==
        conv_norm(2, 4, 9) + conv_norm(4, 8, 9) + conv_norm(8, 16, 9) + (16 * 6 + 6) + (6 + 1));
  const std::set<std::string> names = names_of(net);
  for (const char* name : {"encoder.0.conv.weight", "encoder.4.bn.running_var", "features.weight", "compare.bias"}) {
    CAPTURE(name);
    CHECK(names.contains(name));
  }
  const Array a = noise({4, 8, 8, 2}, 1), b = noise({4, 8, 8, 2}, 2);
  check_gradients(session, net, [&] {
    const std::vector<Tensor> logits = net({a, b});
    CHECK(logits.size() == 1);
    CHECK(logits[0].shape() == Shape{4, 1});
    return binary_cross_entropy_with_logits(logits[0], Array(DType::f32, {4, 1}));
  });
  net.eval();
  Step step = session.step();
  const Tensor forth = net({a, b})[0], back = net({b, a})[0], same = net({a, a})[0], code = net.encode(a);
  CHECK_THROWS_WITH_AS(net({a}), "[siamese] expected two batches of images, got 1", ShapeError);
  const Tensor side_by_side = net(concat({a, b}, 2));
  CHECK_THROWS_AS(net(noise({4, 8, 7, 2})), ShapeError);
  CHECK_THROWS_WITH_AS(net.encode(noise({1, 8, 8, 1})), doctest::Contains("[siamese] expected images [N,H,W,2]"),
                       ShapeError);
  step.run();
  CHECK(code.array().shape() == Shape{4, 6});
  const Array first = forth.array(), second = back.array(), third = same.array();
  CHECK(std::ranges::equal(side_by_side.array().as<float>(), first.as<float>()));
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(first.as<float>()[i] == second.as<float>()[i]);
    CHECK(first.as<float>()[i] != third.as<float>()[i]);
  }
  CHECK(std::ranges::count(third.as<float>(), third.as<float>()[0]) == 4);  // the bias of compare
}

}  // namespace
}  // namespace braid
