#include "models/registry.h"

#include <algorithm>

#include "core/text/suggestion.h"
#include "core/text/text.h"
#include "models/zoo/network.h"
#include "models/zoo/zoo.h"

namespace braid::models {

namespace {

using Factory = std::unique_ptr<Module> (*)(Context& context, const ModelOptions& options);
using OptionNames = std::span<const std::string_view>;

std::unique_ptr<Module> dcgan(Context& context, const ModelOptions& options) {
  const Shape& image = options.image_shape;
  BRAID_CHECK(image[0] == image[1], Error, "[dcgan] expected square images, got ", image);
  return std::make_unique<Dcgan>(
      context, DcganOptions{.channels = image[2], .image_size = image[0], .width = scaled(64, options.width)});
}

std::unique_ptr<Module> lenet(Context& context, const ModelOptions& options) {
  BRAID_CHECK(options.image_shape[0] == options.image_shape[1], Error, "[lenet5] expected square images, got ",
              options.image_shape);
  auto own = network_options<LeNetOptions>(options);
  own.image_size = options.image_shape[0];
  return std::make_unique<LeNet5>(context, own);
}

std::unique_ptr<Module> mlp(Context& context, const ModelOptions& options) {
  return std::make_unique<Mlp>(
      context, MlpOptions{.classes = options.classes, .inputs = options.image_shape.size(), .hidden = options.hidden});
}

template <int kDepth, std::int64_t kGroups = 1, std::int64_t kWidthPerGroup = 64>
std::unique_ptr<Module> resnet(Context& context, const ModelOptions& options) {
  auto own = network_options<ResNetOptions>(options);
  own.zero_init_residual = options.zero_init_residual;
  own.groups = kGroups;
  own.width_per_group = kWidthPerGroup;
  return std::make_unique<ResNet>(context, kDepth, own);
}

/// A net for one task with a fixed path that is drawn at random. Two classes get the grid of the paper's binary tasks,
/// more classes that of its tasks of ten.
template <PathNetOptions::Form kForm>
std::unique_ptr<Module> pathnet(Context& context, const ModelOptions& options) {
  const PathGrid grid = options.classes <= 2 ? PathGrid{3, 10, 3} : PathGrid{3, 20, 5};
  const std::int64_t width = scaled(kForm == PathNetOptions::Form::linear ? 20 : 16, options.width);
  Generator random = context.generator("path");
  auto net = std::make_unique<PathNet>(
      context, PathNetOptions{.form = kForm, .grid = grid, .width = width, .image_shape = options.image_shape},
      random_genotype(grid, random));
  net->add_task("fc", options.classes);
  return net;
}

std::unique_ptr<Module> siamese(Context& context, const ModelOptions& options) {
  return std::make_unique<Siamese>(
      context, SiameseOptions{
                   .channels = options.image_shape[2], .width = scaled(16, options.width), .classes = options.classes});
}

template <SqueezeNet::Version kVersion>
std::unique_ptr<Module> squeezenet(Context& context, const ModelOptions& options) {
  return std::make_unique<SqueezeNet>(context, kVersion, network_options<SqueezeNetOptions>(options));
}

/// A U-Net with one level for each time that the size can be halved, up to the paper's four.
std::unique_ptr<Module> unet(Context& context, const ModelOptions& options) {
  const Shape& image = options.image_shape;
  int levels = 0;
  while (levels < 4 && ((image[0] | image[1]) >> levels) % 2 == 0) ++levels;
  BRAID_CHECK(levels > 0, Error, "[unet] expected images of even height and width, got ", image);
  return std::make_unique<UNet>(
      context,
      UNetOptions{
          .classes = options.classes, .channels = image[2], .levels = levels, .width = scaled(64, options.width)});
}

template <int kLayers, Vgg::Norm kNorm>
std::unique_ptr<Module> vgg(Context& context, const ModelOptions& options) {
  return std::make_unique<Vgg>(context, kLayers, kNorm, network_options<VggOptions>(options));
}

struct Entry {
  std::string_view name;
  std::string_view description;
  Factory factory;
  OptionNames options;
  Task task = Task::classification;
};

constexpr std::string_view kWidth[] = {"width"};
constexpr std::string_view kHidden[] = {"hidden"};
constexpr std::string_view kStem[] = {"stem", "width"};
constexpr std::string_view kGraph[] = {"stem", "width", "graph_seed"};
constexpr std::string_view kAuxiliary[] = {"stem", "width", "auxiliary"};
constexpr std::string_view kResidual[] = {"zero_init_residual", "width"};
constexpr std::string_view kResidualStem[] = {"zero_init_residual", "stem", "width"};

constexpr Entry kModels[] = {
    {"alexnet", "AlexNet, a chain of five convolutions (Krizhevsky, 2014)", network<AlexNet>, kStem},
    {"dcgan", "DCGAN, a generator and its discriminator (Radford, 2016)", dcgan, kWidth, Task::generation},
    {"densenet121", "DenseNet-121, whose layers read all earlier ones (Huang, 2017)", network<DenseNet121>, kStem},
    {"efficientnet_b0", "EfficientNet-B0, squeeze-and-excitation (Tan, 2019)", network<EfficientNetB0>, kStem},
    {"googlenet", "GoogLeNet, inception modules of four branches (Szegedy, 2015)", network<GoogLeNet>, kAuxiliary},
    {"inception_v3", "Inception v3, with factorized convolutions (Szegedy, 2016)", network<InceptionV3>, kAuxiliary},
    {"lenet5", "LeNet-5, for small images (LeCun, 1998)", lenet, kWidth},
    {"mlp", "fully connected layers with ReLU", mlp, kHidden},
    {"mobilenet_v2", "MobileNet v2, depthwise convolutions (Sandler, 2018)", network<MobileNetV2>, kStem},
    {"nasnet_a_mobile", "NASNet-A (mobile), cells of many branches (Zoph, 2018)", network<NasNetAMobile>, kStem},
    {"pathnet_linear", "a path through fully connected modules (Fernando, 2017)", pathnet<PathNetOptions::Form::linear>,
     kWidth},
    {"pathnet_conv", "a path through convolutional modules, after PathNet", pathnet<PathNetOptions::Form::conv>,
     kWidth},
    {"randwire", "RandWire, randomly wired convolutions (Xie, 2019)", network<RandWire>, kGraph},
    {"resnet18", "ResNet-18, the form for ImageNet (He, 2016)", resnet<18>, kResidualStem},
    {"resnet20", "ResNet-20, the form for CIFAR-10 (He, 2016)", resnet<20>, kResidual},
    {"resnet32", "ResNet-32, the form for CIFAR-10 (He, 2016)", resnet<32>, kResidual},
    {"resnet34", "ResNet-34, the form for ImageNet (He, 2016)", resnet<34>, kResidualStem},
    {"resnet44", "ResNet-44, the form for CIFAR-10 (He, 2016)", resnet<44>, kResidual},
    {"resnet50", "ResNet-50, the form for ImageNet (He, 2016)", resnet<50>, kResidualStem},
    {"resnet56", "ResNet-56, the form for CIFAR-10 (He, 2016)", resnet<56>, kResidual},
    {"resnet101", "ResNet-101, the form for ImageNet (He, 2016)", resnet<101>, kResidualStem},
    {"resnet110", "ResNet-110, the form for CIFAR-10 (He, 2016)", resnet<110>, kResidual},
    {"resnet152", "ResNet-152, the form for ImageNet (He, 2016)", resnet<152>, kResidualStem},
    {"resnext50_32x4d", "ResNeXt-50, convolutions in 32 groups (Xie, 2017)", resnet<50, 32, 4>, kResidualStem},
    {"siamese", "compares the two images of a pair by one encoder (Koch, 2015)", siamese, kWidth, Task::verification},
    {"squeezenet1_0", "SqueezeNet 1.0, squeeze and expand modules (Iandola, 2016)",
     squeezenet<SqueezeNet::Version::v1_0>, kStem},
    {"squeezenet1_1", "SqueezeNet 1.1, with less than half the arithmetic of 1.0",
     squeezenet<SqueezeNet::Version::v1_1>, kStem},
    {"unet", "U-Net, a class for each pixel (Ronneberger, 2015)", unet, kWidth, Task::segmentation},
    {"vgg16", "VGG-16, a chain of 13 convolutions (Simonyan, 2015)", vgg<16, Vgg::Norm::none>, kStem},
    {"vgg16_bn", "VGG-16 with batch norm", vgg<16, Vgg::Norm::batch>, kStem},
    {"vgg19", "VGG-19, the same with 16 convolutions", vgg<19, Vgg::Norm::none>, kStem},
    {"vgg19_bn", "VGG-19 with batch norm", vgg<19, Vgg::Norm::batch>, kStem},
};

const Entry& find(std::string_view name) {
  const auto* found = std::ranges::find(kModels, name, &Entry::name);
  if (found != std::end(kModels)) return *found;
  const std::vector<std::string> known = model_names();
  throw Error(
      message("[model] there is no model '", name, '\'', suggestion(name, known), "; there are ", comma_list(known)));
}

}  // namespace

Stem stem_of(const ModelOptions& options) {
  BRAID_CHECK(options.stem == "auto" || options.stem == "image" || options.stem == "small_image", Error,
              "[model] expected a stem of 'auto', 'image' or 'small_image', got '", options.stem, "'");
  constexpr std::int64_t kLargeImage = 128;
  const bool large = options.stem == "image" || (options.stem == "auto" && options.image_shape[0] >= kLargeImage);
  return large ? Stem::image : Stem::small_image;
}

std::unique_ptr<Module> make_model(std::string_view name, Context& context, const ModelOptions& options) {
  return find(name).factory(context, options);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kModels) names.emplace_back(entry.name);
  return names;
}

Task model_task(std::string_view model) { return find(model).task; }

std::string_view model_description(std::string_view model) { return find(model).description; }

std::vector<std::string> model_option_names(std::string_view model) {
  const OptionNames names = find(model).options;
  return {names.begin(), names.end()};
}

}  // namespace braid::models
