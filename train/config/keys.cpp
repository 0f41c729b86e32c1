#include "train/config/keys.h"

#include <algorithm>

#include "core/error.h"
#include "core/suggestion.h"

namespace braid {
namespace {

constexpr std::string_view kKeys[] = {
    "name",
    "seed",
    "device",
    "streams",
    "streams.partition",
    "width",
    "threads",
    "policy",
    "precision",
    "deterministic",
    "benchmark",
    "cuda_graphs",
    "workspace_limit",
    "memory_limit",
    "costs",
    "model",
    "model.name",
    "model.zero_init_residual",
    "model.stem",
    "model.width",
    "model.auxiliary",
    "model.graph_seed",
    "model.hidden",
    "model.layers",
    "model.modules",
    "model.active",
    "model.units",
    "model.channels",
    "data",
    "data.name",
    "data.root",
    "data.size",
    "data.test_size",
    "data.image_size",
    "data.channels",
    "data.classes",
    "data.only_classes",
    "data.workers",
    "data.prefetch",
    "data.augment",
    "data.augment.crop_padding",
    "data.augment.flip",
    "data.augment.salt_and_pepper",
    "data.normalize",
    "data.normalize.mean",
    "data.normalize.std",
    "train",
    "train.epochs",
    "train.batch_size",
    "train.drop_last",
    "train.label_smoothing",
    "train.log_interval",
    "train.max_steps",
    "eval",
    "eval.batch_size",
    "optimizer",
    "optimizer.name",
    "optimizer.lr",
    "optimizer.weight_decay",
    "optimizer.momentum",
    "optimizer.nesterov",
    "optimizer.beta1",
    "optimizer.beta2",
    "optimizer.epsilon",
    "schedule",
    "schedule.name",
    "schedule.warmup_epochs",
    "schedule.milestones",
    "schedule.step_epochs",
    "schedule.gamma",
    "schedule.min_lr",
    "schedule.pct_start",
    "schedule.div_factor",
    "schedule.final_div_factor",
    "output",
    "output.root",
    "balance",
    "jobs",
    "evolution",
    "evolution.task_a",
    "evolution.task_b",
    "evolution.seeds",
    "evolution.population",
    "evolution.tournament",
    "evolution.candidates",
    "evolution.batches",
    "evolution.threshold",
    "evolution.max_generations",
    "evolution.frozen_path",
};

/// What PyTorch, timm and Caffe call our keys, in lower case.
struct Synonym {
  std::string_view name, key;
};
constexpr Synonym kSynonyms[] = {
    {"learning_rate", "optimizer.lr"},
    {"base_lr", "optimizer.lr"},
    {"max_lr", "optimizer.lr"},
    {"lr_policy", "schedule.name"},
    {"scheduler", "schedule"},
    {"lr_scheduler", "schedule"},
    {"lr_schedule", "schedule"},
    {"sched", "schedule"},
    {"batch", "train.batch_size"},
    {"train_batch_size", "train.batch_size"},
    {"bs", "train.batch_size"},
    {"val_batch_size", "eval.batch_size"},
    {"test_batch_size", "eval.batch_size"},
    {"eval_batch_size", "eval.batch_size"},
    {"validation_batch_size", "eval.batch_size"},
    {"max_epochs", "train.epochs"},
    {"num_epochs", "train.epochs"},
    {"n_epochs", "train.epochs"},
    {"max_iter", "train.max_steps"},
    {"max_iters", "train.max_steps"},
    {"iterations", "train.max_steps"},
    {"num_steps", "train.max_steps"},
    {"num_workers", "data.workers"},
    {"n_workers", "data.workers"},
    {"prefetch_factor", "data.prefetch"},
    {"dataset", "data"},
    {"data_dir", "data.root"},
    {"data_path", "data.root"},
    {"num_classes", "data.classes"},
    {"img_size", "data.image_size"},
    {"input_size", "data.image_size"},
    {"hflip", "data.augment.flip"},
    {"mirror", "data.augment.flip"},
    {"arch", "model.name"},
    {"architecture", "model.name"},
    {"model_name", "model.name"},
    {"net", "model"},
    {"network", "model"},
    {"hidden_sizes", "model.hidden"},
    {"training", "train"},
    {"test", "eval"},
    {"validation", "eval"},
    {"evaluation", "eval"},
    {"opt", "optimizer"},
    {"optim", "optimizer"},
    {"solver", "optimizer"},
    {"solver_type", "optimizer.name"},
    {"wd", "optimizer.weight_decay"},
    {"eps", "optimizer.epsilon"},
    {"betas", "optimizer.beta1"},
    {"warmup", "schedule.warmup_epochs"},
    {"step_size", "schedule.step_epochs"},
    {"stepsize", "schedule.step_epochs"},
    {"decay_epochs", "schedule.step_epochs"},
    {"stepvalue", "schedule.milestones"},
    {"decay_rate", "schedule.gamma"},
    {"lr_decay", "schedule.gamma"},
    {"eta_min", "schedule.min_lr"},
    {"smoothing", "train.label_smoothing"},
    {"display", "train.log_interval"},
    {"log_every", "train.log_interval"},
    {"log_freq", "train.log_interval"},
    {"print_freq", "train.log_interval"},
    {"gpu", "device"},
    {"solver_mode", "device"},
    {"cudnn_benchmark", "benchmark"},
    {"random_seed", "seed"},
    {"manual_seed", "seed"},
    {"num_streams", "streams"},
    {"num_threads", "threads"},
    {"dtype", "precision"},
    {"amp", "precision"},
    {"fp16", "precision"},
    {"bf16", "precision"},
    {"mixed_precision", "precision"},
    {"output_dir", "output.root"},
    {"out_dir", "output.root"},
    {"save_dir", "output.root"},
    {"experiment", "name"},
    {"run_name", "name"},
};

static_assert(std::ranges::all_of(kSynonyms, [](const Synonym& synonym) {
  return std::ranges::find(kKeys, synonym.key) != std::end(kKeys);
}));

std::string normalised(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::vector<std::string> keys_named(std::string_view name) {
  std::vector<std::string> keys;
  for (const std::string_view key : kKeys) {
    if (last_part(key) == name) keys.emplace_back(key);
  }
  return keys;
}

/// What other frameworks mean by the name; or nothing.
std::vector<std::string> synonyms(std::string_view name) {
  const auto* found = std::ranges::find(kSynonyms, normalised(name), &Synonym::name);
  if (found == std::end(kSynonyms)) return {};
  return {std::string(found->key)};
}

/// " (did you mean 'train.batch_size' or 'eval.batch_size'?)", without the key that stands at `path`.
std::string did_you_mean(const std::vector<std::string>& keys, std::string_view path) {
  std::string list;
  for (const std::string& key : keys) {
    if (key == path) continue;
    const bool top = key.find('.') == std::string::npos && path.find('.') != std::string_view::npos;
    list += message(list.empty() ? "'" : " or '", key, '\'', top ? " at the top level" : "");
  }
  return list.empty() ? "" : message(" (did you mean ", list, "?)");
}

}  // namespace

std::span<const std::string_view> config_keys() { return kKeys; }

std::vector<std::string> similar_keys(std::string_view name) {
  if (const auto keys = synonyms(name); !keys.empty()) return keys;
  const std::string text = normalised(last_part(name));
  if (const auto keys = keys_named(text); !keys.empty()) return keys;
  std::vector<std::string> names;
  for (const std::string_view key : kKeys) names.emplace_back(last_part(key));
  return keys_named(nearest(text, names));
}

std::string key_suggestion(std::string_view path, std::string_view key, std::span<const std::string> known) {
  if (const auto keys = synonyms(key); !keys.empty()) {
    const std::string name(last_part(keys.front()));
    const bool here = name != "name" && std::ranges::count(known, name) > 0;  // every second section has a name
    return here ? message(" (did you mean '", name, "'?)") : did_you_mean(keys, path);
  }
  const std::string near = suggestion(normalised(key), known);
  return near.empty() ? did_you_mean(similar_keys(key), path) : near;
}

}  // namespace braid
