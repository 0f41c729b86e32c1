#include "train/config.h"

#include <algorithm>
#include <charconv>
#include <iomanip>
#include <sstream>

#include "core/device.h"
#include "core/error.h"
#include "models/registry.h"
#include "scheduler/policy.h"
#include "train/config_reader.h"

namespace braid {

namespace {

// Upper limits catch slips of the finger before they exhaust the machine.
constexpr double kMaxCount = 1e9;
constexpr double kMaxStreams = 64;
constexpr double kMaxThreads = 1024;

const std::vector<std::string> kDatasets{"fashion_mnist", "synthetic"};
const std::vector<std::string> kOptimizers{"sgd", "adam", "adamw"};
const std::vector<std::string> kStems{"auto", "image", "small_image"};

/// The name becomes part of a path.
bool is_file_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && name.size() <= 100 && name[0] != '.' && name[0] != '-' && std::ranges::all_of(name, allowed);
}

/// Rejects keys that exist for other choices of `name` only.
void reject_all(ConfigSection& section, std::initializer_list<std::string_view> keys, std::string_view what,
                const std::string& name) {
  for (const std::string_view key : keys)
    section.reject(key, message("has no meaning for the ", what, " '", name, "'"));
}

bool is_residual(std::string_view model) { return model.starts_with("resnet"); }

/// The ImageNet form has a choice of stems, the CIFAR form has not.
bool has_stem(std::string_view model) {
  constexpr std::string_view kImageNetForm[] = {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"};
  return std::ranges::find(kImageNetForm, model) != std::end(kImageNetForm);
}

void read(ConfigSection section, ModelConfig& model) {
  section.require("name");
  section.read("name", model.name, models::model_names());
  if (is_residual(model.name)) {
    section.read("zero_init_residual", model.zero_init_residual);
  } else {
    reject_all(section, {"zero_init_residual"}, "model", model.name);
  }
  if (has_stem(model.name)) {
    section.read("stem", model.stem, kStems);
  } else {
    reject_all(section, {"stem"}, "model", model.name);
  }
  section.finish();
}

void read(ConfigSection section, AugmentConfig& augment) {
  section.read("crop_padding", augment.crop_padding, between(0, 64));
  section.read("flip", augment.flip);
  section.finish();
}

void read_normalisation(ConfigSection section, DataConfig& data) {
  const auto channels = static_cast<std::size_t>(data.name == "synthetic" ? data.channels : 1);
  section.read("mean", data.mean, {});
  section.read("std", data.std, above(0));
  section.finish();
  for (const auto& [key, values] : {std::pair("mean", &data.mean), std::pair("std", &data.std)}) {
    if (!values->empty() && values->size() != channels) {
      section.fail(key, message("expected one value per channel (", channels, "), got ", values->size()));
    }
  }
}

void read(ConfigSection section, DataConfig& data) {
  section.require("name");
  section.read("name", data.name, kDatasets);
  if (data.name == "synthetic") {
    reject_all(section, {"root"}, "dataset", data.name);
    section.read("size", data.size, between(1, 1e7));
    section.read("test_size", data.test_size, between(1, 1e7));
    section.read("image_size", data.image_size, between(1, 1024));
    section.read("channels", data.channels, between(1, 64));
    section.read("classes", data.classes, between(1, 256));
  } else {
    reject_all(section, {"size", "test_size", "image_size", "channels", "classes"}, "dataset", data.name);
    section.read("root", data.root);
  }
  section.read("workers", data.workers, between(0, kMaxThreads));
  section.read("prefetch", data.prefetch, between(1, kMaxThreads));
  read(section.section("augment"), data.augment);
  read_normalisation(section.section("normalize"), data);
  section.finish();
}

void read_training(ConfigSection section, TrainConfig& config) {
  section.require("epochs");
  section.read("epochs", config.epochs, between(1, kMaxCount));
  section.read("batch_size", config.batch_size, between(1, kMaxCount));
  section.read("drop_last", config.drop_last);
  section.read("label_smoothing", config.label_smoothing, below(0, 1));
  section.read("log_interval", config.log_interval, between(1, kMaxCount));
  section.read("max_steps", config.max_steps, between(0, kMaxCount));
  section.finish();
}

void read(ConfigSection section, OptimizerConfig& optimizer) {
  section.read("name", optimizer.name, kOptimizers);
  optimizer.lr = optimizer.name == "sgd" ? 0.1 : 1e-3;
  section.read("lr", optimizer.lr, above(0));
  section.read("weight_decay", optimizer.weight_decay, at_least(0));
  if (optimizer.name == "sgd") {
    reject_all(section, {"beta1", "beta2", "epsilon"}, "optimizer", optimizer.name);
    section.read("momentum", optimizer.momentum, below(0, 1));
    section.read("nesterov", optimizer.nesterov);
    if (optimizer.nesterov && optimizer.momentum == 0) section.fail("nesterov", "needs a momentum above 0");
  } else {
    reject_all(section, {"momentum", "nesterov"}, "optimizer", optimizer.name);
    section.read("beta1", optimizer.beta1, below(0, 1));
    section.read("beta2", optimizer.beta2, below(0, 1));
    section.read("epsilon", optimizer.epsilon, above(0));
  }
  section.finish();
}

void read(ConfigSection section, ScheduleOptions& schedule) {
  section.read("name", schedule.name, schedule_names());
  const auto only_for = [&](std::string_view name, std::initializer_list<std::string_view> keys) {
    if (schedule.name != name) reject_all(section, keys, "schedule", schedule.name);
    return schedule.name == name;
  };
  if (only_for("step", {"milestones", "step_epochs", "gamma"})) {
    section.read("milestones", schedule.milestones, above(0));
    section.read("step_epochs", schedule.step_epochs, between(1, kMaxCount));
    section.read("gamma", schedule.gamma, {.min = 0, .max = 1, .above_min = true});
    if (!std::ranges::is_sorted(schedule.milestones)) section.fail("milestones", "expected ascending epochs");
    if (schedule.milestones.empty() == (schedule.step_epochs == 0)) {
      section.fail("name", "a 'step' schedule needs either milestones or step_epochs");
    }
  }
  if (only_for("cosine", {"min_lr"})) section.read("min_lr", schedule.min_lr, at_least(0));
  if (only_for("one_cycle", {"pct_start", "div_factor", "final_div_factor"})) {
    reject_all(section, {"warmup_epochs"}, "schedule", schedule.name);  // it has a warm-up of its own: pct_start
    section.read("pct_start", schedule.pct_start, between(0, 1));
    section.read("div_factor", schedule.div_factor, above(0));
    section.read("final_div_factor", schedule.final_div_factor, above(0));
  } else {
    section.read("warmup_epochs", schedule.warmup_epochs, between(0, kMaxCount));
  }
  section.finish();
}

void read_device(ConfigSection& section, std::string& device) {
  section.read("device", device);
  try {
    Device::parse(device);
  } catch (const DeviceError&) {
    section.fail("device", message("expected auto, cpu, cuda or cuda:<index>, got '", device, "'"));
  }
}

void read_evaluation(ConfigSection section, TrainConfig& config) {
  section.read("batch_size", config.eval_batch_size, between(1, kMaxCount));
  section.finish();
}

void read_output(ConfigSection section, TrainConfig& config) {
  section.read("root", config.output_root);
  if (config.output_root.empty()) section.fail("root", "expected a folder, got ''");
  section.finish();
}

void read_session(ConfigSection& section, TrainConfig& config) {
  section.read("seed", config.seed);
  read_device(section, config.device);
  section.read_or_word("streams", config.streams, between(1, kMaxStreams), "auto");
  section.read_or_word("width", config.width, between(1, kMaxThreads), "auto");
  section.read_or_word("threads", config.threads, between(0, kMaxThreads), "all");
  section.read("policy", config.policy, policy_names());
}

TrainConfig read(const ConfigNode& tree) {
  TrainConfig config;
  ConfigSection root(tree);
  root.require("name");
  root.read("name", config.name);
  if (root.has("name") && !is_file_name(config.name)) {
    root.fail("name",
              "names the run's folder: expected letters, digits, '_', '-' and '.', beginning with a letter, "
              "digit or '_'");
  }
  read_session(root, config);
  const ConfigSection model = root.section("model"), data = root.section("data"), train = root.section("train"),
                      eval = root.section("eval"), optimizer = root.section("optimizer"),
                      schedule = root.section("schedule"), output = root.section("output");
  root.finish();
  read(model, config.model);
  read(data, config.data);
  read_training(train, config);
  read_evaluation(eval, config);
  read(optimizer, config.optimizer);
  read(schedule, config.schedule);
  read_output(output, config);
  return config;
}

/// Text as a YAML scalar that reads as the same text again.
std::string as_scalar(std::string_view text) {
  std::ostringstream out;
  out << '"' << std::hex << std::setfill('0');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7f) {
      out << "\\x" << std::setw(2) << int{byte};
    } else {
      out << (c == '"' || c == '\\' ? "\\" : "") << c;
    }
  }
  return out.str() + '"';
}

/// The shortest decimal that reads as the same number again.
std::string number(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string list(const std::vector<double>& values) {
  std::string out;
  for (const double value : values) out.append(out.empty() ? "" : ", ").append(number(value));
  return '[' + out + ']';
}

std::string flag(bool value) { return value ? "true" : "false"; }

std::string count_or(std::int64_t count, const char* word) { return count == 0 ? word : std::to_string(count); }

void write(std::ostream& out, const DataConfig& data) {
  out << "data:\n  name: " << data.name << '\n';
  if (data.name == "synthetic") {
    out << "  size: " << data.size << "\n  test_size: " << data.test_size << "\n  image_size: " << data.image_size
        << "\n  channels: " << data.channels << "\n  classes: " << data.classes << '\n';
  } else {
    out << "  root: " << as_scalar(data.root) << '\n';
  }
  out << "  workers: " << data.workers << "\n  prefetch: " << data.prefetch
      << "\n  augment:\n    crop_padding: " << data.augment.crop_padding << "\n    flip: " << flag(data.augment.flip)
      << "\n  normalize:\n    mean: " << list(data.mean) << "\n    std: " << list(data.std) << '\n';
}

void write(std::ostream& out, const OptimizerConfig& optimizer) {
  out << "optimizer:\n  name: " << optimizer.name << "\n  lr: " << number(optimizer.lr)
      << "\n  weight_decay: " << number(optimizer.weight_decay) << '\n';
  if (optimizer.name == "sgd") {
    out << "  momentum: " << number(optimizer.momentum) << "\n  nesterov: " << flag(optimizer.nesterov) << '\n';
  } else {
    out << "  beta1: " << number(optimizer.beta1) << "\n  beta2: " << number(optimizer.beta2)
        << "\n  epsilon: " << number(optimizer.epsilon) << '\n';
  }
}

void write(std::ostream& out, const ScheduleOptions& schedule) {
  out << "schedule:\n  name: " << schedule.name << '\n';
  if (schedule.name != "one_cycle") out << "  warmup_epochs: " << number(schedule.warmup_epochs) << '\n';
  if (schedule.name == "step") {
    if (schedule.step_epochs > 0) out << "  step_epochs: " << schedule.step_epochs << '\n';
    if (!schedule.milestones.empty()) out << "  milestones: " << list(schedule.milestones) << '\n';
    out << "  gamma: " << number(schedule.gamma) << '\n';
  }
  if (schedule.name == "cosine") out << "  min_lr: " << number(schedule.min_lr) << '\n';
  if (schedule.name == "one_cycle") {
    out << "  pct_start: " << number(schedule.pct_start) << "\n  div_factor: " << number(schedule.div_factor)
        << "\n  final_div_factor: " << number(schedule.final_div_factor) << '\n';
  }
}

}  // namespace

TrainConfig parse_train_config(std::string_view text, const std::string& source,
                               const std::vector<std::string>& overrides) {
  ConfigNode tree = parse_config(text, source);
  for (const std::string& assignment : overrides) apply_override(tree, assignment);
  return read(tree);
}

TrainConfig read_train_config(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  ConfigNode tree = read_config_file(path);
  for (const std::string& assignment : overrides) apply_override(tree, assignment);
  return read(tree);
}

std::string to_yaml(const TrainConfig& config) {
  std::ostringstream out;
  out << "name: " << as_scalar(config.name) << "\nseed: " << config.seed << "\ndevice: " << config.device
      << "\nstreams: " << count_or(config.streams, "auto") << "\nwidth: " << count_or(config.width, "auto")
      << "\nthreads: " << count_or(config.threads, "all") << "\npolicy: " << config.policy
      << "\nmodel:\n  name: " << config.model.name << '\n';
  if (is_residual(config.model.name)) {
    out << "  zero_init_residual: " << flag(config.model.zero_init_residual) << '\n';
  }
  if (has_stem(config.model.name)) out << "  stem: " << config.model.stem << '\n';
  write(out, config.data);
  out << "train:\n  epochs: " << config.epochs << "\n  batch_size: " << config.batch_size
      << "\n  drop_last: " << flag(config.drop_last) << "\n  label_smoothing: " << number(config.label_smoothing)
      << "\n  log_interval: " << config.log_interval << "\n  max_steps: " << config.max_steps
      << "\neval:\n  batch_size: " << config.eval_batch_size << '\n';
  write(out, config.optimizer);
  write(out, config.schedule);
  out << "output:\n  root: " << as_scalar(config.output_root) << '\n';
  return out.str();
}

}  // namespace braid
