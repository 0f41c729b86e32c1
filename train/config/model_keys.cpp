// The keys of the section "model".

#include <algorithm>

#include "core/text/text.h"
#include "train/config/config.h"

namespace braid {

namespace {

void declare_layer(const Keys& keys, models::LayerSpec& layer) {
  keys("type", layer.type, {.words = models::LayerList::types(), .required = true},
       message("what the layer computes: ", comma_list(models::LayerList::types())));
  keys("name", layer.name,
       {.pattern = "[A-Za-z0-9_][A-Za-z0-9_-]{0,99}",
        .form = "at most 100 letters, digits, '_' and '-', beginning with a letter, digit or '_'"},
       "for `from` and for the names of its parameters; without one, the layer's number in the list, from 0");
  keys("from", layer.from, {.min_items = 1, .single = true, .synonyms = {"input", "inputs", "bottom"}},
       "names of what the layer reads, all above it; `input` is the images; without it, the layer before");
  const std::vector<std::string> own =
      layer.type.empty() ? std::vector<std::string>{} : models::LayerList::options(layer.type);
  const auto option = [&](std::string_view key, auto& target, const KeyRule& rule, std::string_view text) {
    if (std::ranges::find(own, key) != own.end()) keys(key, target, rule, text);
  };
  option("channels", layer.channels,
         {.min = 1, .max = 65536, .required = true, .synonyms = {"out", "out_channels", "filters", "num_output"}},
         "channels of the output");
  option("kernel", layer.kernel,
         {.min = 1,
          .max = 1024,
          .min_items = 1,
          .max_items = 2,
          .single = true,
          .required = true,
          .synonyms = {"kernel_size", "window", "pool_size"}},
         "height and width of the filter or window, or one number for both");
  option("stride", layer.stride,
         {.min = 1, .max = 1024, .min_items = 1, .max_items = 2, .single = true, .synonyms = {"strides"}},
         "likewise; without it, 1 in convolutions and the kernel in pools");
  option("padding", layer.padding,
         {.min = 0, .max = 1024, .word = "same", .min_items = 1, .max_items = 2, .single = true, .synonyms = {"pad"}},
         "zeros on each side; `same` keeps height and width at stride 1");
  option("dilation", layer.dilation, {.min = 1, .max = 1024}, "distance of the filter's elements");
  option("groups", layer.groups, {.min = 1, .max = 65536, .synonyms = {"group", "num_groups"}},
         "groups of channels that are convolved, or normalised, apart from each other");
  option("bias", layer.bias, {.synonyms = {"use_bias", "bias_term"}}, "adds a number to each channel");
  option("size", layer.size,
         {.min = 1,
          .max = 1 << 24,
          .word = layer.type == "linear" ? "classes" : "",
          .required = layer.type != "linear",
          .synonyms = {"units", "features", "out", "out_features", "output_size", "num_output"}},
         "features of the output, or the number of classes; of `adaptive_avg_pool`, height and width of the output");
  option("p", layer.p, {.min = 0, .below = 1, .synonyms = {"rate", "prob", "dropout_ratio"}},
         "share of the elements that become 0 in training");
  option("slope", layer.slope, {.min = 0, .synonyms = {"negative_slope", "alpha"}}, "factor of negative numbers");
  option("scale", layer.scale, {.above = 0, .max = 1024, .synonyms = {"scale_factor", "factor"}},
         "height and width of the output over those of the input");
  option("mode", layer.mode,
         {.words = {"nearest", "bilinear", "nearest_exact", "bicubic"}, .synonyms = {"interpolation"}},
         "what new pixels are made of");
  option("activation", layer.activation, {.words = models::LayerList::activations(), .synonyms = {"act"}},
         "a function of the output of `conv`, `linear`, the norms, `add` and `multiply`, as a layer of that type would "
         "be; `relu` and `relu6` after convolutions and batch "
         "norms take no extra time");
}

}  // namespace

void ModelConfig::declare(const Keys& keys) {
  keys("name", name,
       {.words = models::model_names(),
        .required = true,
        .instead = "layers",
        .synonyms = {"arch", "architecture", "model_name"}},
       "the network: see [models.md](models.md), or `braid models`");
  keys("freeze", freeze, {.synonyms = {"frozen", "freeze_layers"}},
       "parameters that are not trained: patterns of their names as in a shell, for example `[conv1.*, layer1.*]`");
  std::vector<Keys> of_layers;
  keys.list("layers", layers, {.min_items = 1}, "the network, layer by layer: [see below](#a-network-of-layers)",
            [&](const Keys& of_layer, models::LayerSpec& layer) {
              declare_layer(of_layer, layer);
              if (layer.name.empty()) layer.name = std::to_string(of_layers.size());
              of_layers.push_back(of_layer);
            });
  if (const auto mistake = models::LayerList::find_mistake(layers)) {
    of_layers[mistake->layer].check(mistake->member, false, mistake->what);
  }
  const std::vector<std::string> own = name.empty() ? std::vector<std::string>{} : models::model_option_names(name);
  const auto option = [&](std::string_view key, auto& target, const KeyRule& rule, std::string_view text) {
    if (std::ranges::find(own, key) != own.end()) keys(key, target, rule, text);
  };
  option("zero_init_residual", options.zero_init_residual, {},
         "`resnet…`, `resnext…`: the last batch norm of each block starts at scale 0");
  option("stem", options.stem, {.words = {"auto", "image", "small_image"}},
         "networks for ImageNet: as published, or for images of about 32×32; `auto` takes `image` from 128 pixels on");
  option("width", options.width, {.above = 0, .max = 16},
         "multiplies the channels of all layers but the classifier's outputs");
  option("auxiliary", options.auxiliary, {}, "train with the auxiliary classifiers of the paper");
  option("graph_seed", options.graph_seed, {}, "seed of its random graphs");
  option("hidden", options.hidden, {.min = 1, .max = 1e6, .synonyms = {"hidden_sizes"}}, "sizes of the hidden layers");
  keys("weights", weights, {.path = true, .synonyms = {"pretrained", "finetune", "initial_checkpoint"}},
       "safetensors file to start from, of a run or in torchvision's names and layouts ([export.md](export.md)); if it "
       "has other classes, the classifier starts at random; empty: all random");
}

}  // namespace braid
