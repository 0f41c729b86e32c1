#include "models/layers/layer_list.h"

#include <algorithm>
#include <numeric>

#include "core/text/suggestion.h"
#include "core/text/text.h"

namespace braid::models {

namespace {

using Inputs = std::span<const Tensor>;
constexpr std::string_view kInput = "input";

struct NamedFunction {
  std::string_view name;
  Tensor (*function)(const Tensor&);
};
constexpr NamedFunction kActivations[] = {{"relu", relu},
                                          {"relu6", relu6},
                                          {"silu", silu},
                                          {"gelu", [](const Tensor& x) { return gelu(x); }},
                                          {"sigmoid", sigmoid},
                                          {"tanh", tanh},
                                          {"elu", [](const Tensor& x) { return elu(x); }},
                                          {"hardswish", hardswish},
                                          {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }}};

/// Null for "none".
auto find_activation(std::string_view name) {
  const auto* found = std::ranges::find(kActivations, name, &NamedFunction::name);
  BRAID_CHECK(name == "none" || found != std::end(kActivations), Error, "there is no activation '", name, '\'',
              suggestion(name, LayerList::activations()));
  return name == "none" ? nullptr : found->function;
}

class JoinLayer final : public Module {
 public:
  JoinLayer(Context& context, Tensor (*join)(Inputs)) : Module(context), join_(join) {}
  std::vector<Tensor> forward_all(Inputs inputs) override { return {join_(inputs)}; }

 private:
  Tensor (*join_)(Inputs);
};

std::string name_of(std::span<const LayerSpec> layers, std::size_t i) {
  return layers[i].name.empty() ? std::to_string(i) : layers[i].name;
}

Extent2d extent(const std::vector<std::int64_t>& values, Extent2d otherwise = 1) {
  if (values.empty()) return otherwise;
  return {values.front(), values.back()};
}

Extent2d padding(const LayerSpec& spec) {
  if (spec.padding != std::vector{LayerSpec::kSame}) return extent(spec.padding, 0);
  const Extent2d kernel = extent(spec.kernel);
  const std::int64_t h = spec.dilation * (kernel.h - 1), w = spec.dilation * (kernel.w - 1);
  BRAID_CHECK(h % 2 == 0 && w % 2 == 0, Error, "padding 'same' needs an odd kernel, got ", kernel);
  return {h / 2, w / 2};
}

PoolOptions pool(const LayerSpec& spec) {
  const Extent2d window = extent(spec.kernel);
  return {.window = window, .stride = extent(spec.stride, window), .padding = padding(spec)};
}

/// The activation that convolution and batch norm apply in their own node.
Activation fused_activation(const LayerSpec& spec) {
  return spec.activation == "relu"    ? Activation::relu
         : spec.activation == "relu6" ? Activation::relu6
                                      : Activation::none;
}

}  // namespace

/// Makes the module of one layer, and holds the table of types.
struct LayerList::Builder {
  LayerList& list;
  const LayerSpec& spec;
  std::span<const Tensor> inputs;
  std::int64_t classes;

  template <class Layer, class... Arguments>
  Module& add(Arguments&&... arguments) const {
    return list.Module::add<Layer>(spec.name, std::forward<Arguments>(arguments)...);
  }
  Shape shape() const { return inputs.front().shape(); }
  std::int64_t channels() const { return shape()[shape().rank() - 1]; }
  void expect(int rank, std::string_view expected) const {
    BRAID_CHECK(shape().rank() == rank, ShapeError, "expected ", expected, ", got ", shape());
  }

  struct Type {
    std::string_view name;
    std::vector<std::string> options;
    Module& (*make)(const Builder& layer);
    bool joins = false;  ///< reads several layers
  };
  static std::vector<Type> make_types();
  static const std::vector<Type>& types() {
    static const std::vector<Type> types = make_types();
    return types;
  }
  /// Null if there is none.
  static const Type* find(std::string_view name) {
    const auto found = std::ranges::find(types(), name, &Type::name);
    return found == types().end() ? nullptr : &*found;
  }
};

std::vector<LayerList::Builder::Type> LayerList::Builder::make_types() {
  using B = const Builder&;
  std::vector<Type> types{
      {"conv",
       {"channels", "kernel", "stride", "padding", "dilation", "groups", "bias", "activation"},
       [](B layer) -> Module& {
         const LayerSpec& conv = layer.spec;
         layer.expect(4, "images [N,H,W,C]");
         const Conv2dOptions options{.stride = extent(conv.stride),
                                     .padding = padding(conv),
                                     .dilation = conv.dilation,
                                     .groups = conv.groups,
                                     .activation = fused_activation(conv)};
         return layer.add<ConvLayer>(layer.channels(), conv.channels, extent(conv.kernel), options,
                                     conv.bias ? Bias::yes : Bias::no);
       }},
      {"batch_norm",
       {"activation"},
       [](B layer) -> Module& { return layer.add<BatchNormLayer>(layer.channels(), fused_activation(layer.spec)); }},
      {"group_norm",
       {"groups", "activation"},
       [](B layer) -> Module& { return layer.add<GroupNormLayer>(layer.spec.groups, layer.channels()); }},
      {"layer_norm", {"activation"}, [](B layer) -> Module& { return layer.add<LayerNormLayer>(layer.channels()); }},
      {"linear",
       {"size", "activation"},
       [](B layer) -> Module& {
         layer.expect(2, "[N,features], as flatten and global_avg_pool give them");
         return layer.add<LinearLayer>(layer.channels(), layer.spec.size == 0 ? layer.classes : layer.spec.size);
       }},
      {"max_pool",
       {"kernel", "stride", "padding"},
       [](B layer) -> Module& { return layer.add<MaxPoolLayer>(pool(layer.spec)); }},
      {"avg_pool",
       {"kernel", "stride", "padding"},
       [](B layer) -> Module& { return layer.add<AvgPoolLayer>(pool(layer.spec)); }},
      {"adaptive_avg_pool",
       {"size"},
       [](B layer) -> Module& {
         return layer.add<FunctionLayer>(
             [size = layer.spec.size](const Tensor& x) { return adaptive_avg_pool2d(x, size); });
       }},
      {"global_avg_pool", {}, [](B layer) -> Module& { return layer.add<FunctionLayer>(global_avg_pool); }},
      {"upsample",
       {"scale", "mode"},
       [](B layer) -> Module& {
         InterpolateOptions options{.scale = layer.spec.scale};
         for (const auto mode : {Interpolation::bilinear, Interpolation::nearest_exact, Interpolation::bicubic}) {
           if (layer.spec.mode == name_of(mode)) options.mode = mode;
         }
         return layer.add<UpsampleLayer>(options);
       }},
      {"dropout", {"p"}, [](B layer) -> Module& { return layer.add<DropoutLayer>(layer.spec.p); }},
      {"flatten", {}, [](B layer) -> Module& { return layer.add<FunctionLayer>(flatten); }},
      {"add",
       {"activation"},
       [](B layer) -> Module& { return layer.add<JoinLayer>([](Inputs x) { return sum(x); }); },
       true},
      {"multiply",
       {"activation"},
       [](B layer) -> Module& {
         return layer.add<JoinLayer>([](Inputs x) {
           return std::accumulate(x.begin() + 1, x.end(), x[0], [](const Tensor& a, const Tensor& b) { return a * b; });
         });
       },
       true},
      {"concat", {}, [](B layer) -> Module& { return layer.add<JoinLayer>([](Inputs x) { return concat(x); }); }, true},
      {"leaky_relu",
       {"slope"},
       [](B layer) -> Module& {
         return layer.add<FunctionLayer>([slope = layer.spec.slope](const Tensor& x) { return leaky_relu(x, slope); });
       }},
  };
  for (const NamedFunction& function : kActivations) {
    if (std::ranges::count(types, function.name, &Type::name) > 0) continue;
    types.push_back({function.name, {}, [](B layer) -> Module& {
                       return layer.add<FunctionLayer>(find_activation(layer.spec.type));
                     }});
  }
  return types;
}

std::optional<LayerMistake> LayerList::find_mistake(std::span<const LayerSpec> layers) {
  std::vector<std::string> names{std::string(kInput)}, later;
  for (std::size_t i = 0; i < layers.size(); ++i) later.push_back(name_of(layers, i));
  std::vector<bool> read{true};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec& spec = layers[i];
    const Builder::Type* type = Builder::find(spec.type);
    if (type == nullptr) {
      const std::vector<std::string> known = types();
      return {{i, "type",
               message("there is no type of layer '", spec.type, '\'', suggestion(spec.type, known), "; there are ",
                       comma_list(known))}};
    }
    for (const std::string& from : spec.from) {
      const auto found = std::ranges::find(names, from);
      if (found == names.end()) {
        const bool comes = std::ranges::find(later, from) != later.end();
        return {{i, "from",
                 comes ? message("'", from, "' is not above this layer: a layer reads layers above it")
                       : message("there is no layer '", from, '\'', suggestion(from, names))}};
      }
      read[static_cast<std::size_t>(found - names.begin())] = true;
    }
    if (spec.from.empty()) read.back() = true;
    if (type->joins != (spec.from.size() > 1)) {
      return {{i, "from",
               type->joins ? message("expected the names of two or more layers that '", spec.type, "' joins")
                           : message("'", spec.type, "' reads one layer: join several with add, multiply or concat")}};
    }
    if (std::ranges::find(names, later[i]) != names.end()) {
      return {{i, "name", message("another layer already has the name '", later[i], '\'')}};
    }
    names.push_back(later[i]);
    read.push_back(false);
  }
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    if (!read[i + 1])
      return {{i, "name", message("no other layer reads '", names[i + 1], "', and it is not the last")}};
  }
  return std::nullopt;
}

LayerList::LayerList(Context& context, std::vector<LayerSpec> specs, const Shape& image, std::int64_t classes)
    : Module(context), channels_(image[2]) {
  BRAID_CHECK(!specs.empty(), Error, "[model] expected at least one layer");
  for (std::size_t i = 0; i < specs.size(); ++i) specs[i].name = name_of(specs, i);
  if (const auto mistake = find_mistake(specs)) {
    throw Error(message("[model] layer '", specs[mistake->layer].name, "': ", mistake->member, ": ", mistake->what));
  }
  // Evaluated once on a separate tape, so that each layer sees the shapes that it reads.
  Tape scratch(context);
  scratch.start_step(nullptr);
  const Tape::Guard guard(scratch);
  const NoGrad no_grad;
  constexpr std::int64_t kImages = 2;
  std::vector<Tensor> values{Array(DType::f32, {kImages, image[0], image[1], image[2]})};
  std::vector<std::string> names{std::string(kInput)};
  for (const LayerSpec& spec : specs) {
    Layer layer{};
    std::vector<Tensor> inputs;
    if (spec.from.empty()) layer.from = {names.size() - 1};
    for (const std::string& from : spec.from) {
      layer.from.push_back(static_cast<std::size_t>(std::ranges::find(names, from) - names.begin()));
    }
    for (const std::size_t from : layer.from) inputs.push_back(values[from]);
    try {
      layer.module = &Builder::find(spec.type)->make({*this, spec, inputs, classes});
      const bool fused =
          (spec.type == "conv" || spec.type == "batch_norm") && fused_activation(spec) != Activation::none;
      if (!fused) layer.activation = find_activation(spec.activation);
      const ModuleMode evaluation(*layer.module, false);
      values.push_back(run(layer, inputs));
    } catch (const Error& error) {
      throw Error(message("[model] layer '", spec.name, "': ", error.what()));
    }
    names.push_back(spec.name);
    layers_.push_back(std::move(layer));
  }
  BRAID_CHECK((values.back().shape() == Shape{kImages, classes}), Error, "[model] layer '", names.back(),
              "': expected the last layer to give logits [N,", classes, "], got ", values.back().shape(),
              " for N = ", kImages, ": end with the type linear without a size");
}

Tensor LayerList::run(const Layer& layer, std::span<const Tensor> inputs) {
  const Tensor y = (*layer.module)(inputs).front();
  if (layer.activation == nullptr) return y;
  const Tape::Layer of_layer(y.tape(), layer.module->name());
  return layer.activation(y);
}

Tensor LayerList::forward(const Tensor& x) {
  check_images("model", x, channels_, 1);
  std::vector<Tensor> values{x}, inputs;
  for (const Layer& layer : layers_) {
    inputs.clear();
    for (const std::size_t from : layer.from) inputs.push_back(values[from]);
    values.push_back(run(layer, inputs));
  }
  return values.back();
}

std::vector<std::string> LayerList::types() {
  std::vector<std::string> names;
  for (const Builder::Type& type : Builder::types()) names.emplace_back(type.name);
  return names;
}

std::vector<std::string> LayerList::options(std::string_view type) {
  const Builder::Type* found = Builder::find(type);
  BRAID_CHECK(found != nullptr, Error, "[model] there is no type of layer '", type, '\'', suggestion(type, types()));
  return found->options;
}

std::vector<std::string> LayerList::activations() {
  std::vector<std::string> names{"none"};
  for (const NamedFunction& function : kActivations) names.emplace_back(function.name);
  return names;
}

}  // namespace braid::models
