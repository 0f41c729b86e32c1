#include "train/config/sections.h"

#include <algorithm>
#include <cstdlib>

#include "core/device.h"
#include "core/error.h"
#include "data/synthetic.h"
#include "scheduler/costs/known_devices.h"
#include "scheduler/policy.h"
#include "train/run/factories.h"

namespace braid {

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
const std::vector<std::string> kOptimizers{"sgd", "adam", "adamw"};
const std::vector<std::string> kPrecisions{"f32", "tf32", "bf16", "f16"};
const std::vector<std::string> kStems{"auto", "image", "small_image"};

/// The name becomes part of a path.
bool is_file_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && name[0] != '.' && name[0] != '-' && std::ranges::all_of(name, allowed);
}

/// The key of a file or folder. As in a shell, ~/ is the user's home; anything else that begins with ~ would be a slip.
void read_path(ConfigSection& section, std::string_view key, std::string& path) {
  section.read(key, path);
  if (!path.starts_with('~')) return;
  if (path.size() > 1 && path[1] != '/') {
    section.fail(key, message("expected a path, got '", path, "': '~' stands for a home folder as '~/' only"));
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr) section.fail(key, message("'", path, "' needs the environment variable HOME, which is not set"));
  path.replace(0, 1, home);
}

/// Rejects keys that exist for other choices of `name` only.
void reject_all(ConfigSection& section, std::initializer_list<std::string_view> keys, std::string_view what,
                const std::string& name) {
  for (const std::string_view key : keys)
    section.reject(key, message("has no meaning for the ", what, " '", name, "'"));
}

void read_augmentation(ConfigSection section, AugmentConfig& augment) {
  section.read("crop_padding", augment.crop_padding, between(0, 64));
  section.read("flip", augment.flip);
  section.read("salt_and_pepper", augment.salt_and_pepper, between(0, 1));
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

void read_steps(ConfigSection section, TrainConfig& config) {
  section.require("epochs");
  section.read("epochs", config.epochs, between(1, kMaxCount));
  section.read("batch_size", config.batch_size, between(1, kMaxCount));
  section.read("drop_last", config.drop_last);
  section.read("label_smoothing", config.label_smoothing, below(0, 1));
  section.read("log_interval", config.log_interval, between(1, kMaxCount));
  section.read("max_steps", config.max_steps, between(0, kMaxCount));
  section.finish();
}

void read_evaluation(ConfigSection section, TrainConfig& config) {
  section.read("batch_size", config.eval_batch_size, between(1, kMaxCount));
  section.finish();
}

void read_device(ConfigSection& parent, std::string& device) {
  parent.read("device", device);
  try {
    Device::parse(device);
  } catch (const DeviceError&) {
    const bool known = std::ranges::count(scheduler::known_device_names(), device) > 0;
    parent.fail("device", message("expected auto, cpu, cuda or cuda:<index>, got '", device, "'",
                                  known ? "; to plan for it: braid plan --device " + device : ""));
  }
}

/// Streams with SMs of their own.
void read_partition(ConfigSection section, SessionOptions& session) {
  std::vector<std::int64_t> parts;
  section.require("partition");
  section.read("partition", parts, between(1, 1024));
  section.finish();
  if (parts.empty() || parts.size() > kMaxStreams) {
    section.fail("partition", message("expected SMs for 1 to ", kMaxStreams, " streams, got ", parts.size()));
  }
  session.partition.assign(parts.begin(), parts.end());
  session.streams = static_cast<int>(parts.size());
}

}  // namespace

void read_classes(ConfigSection& parent, std::string_view key, const DataConfig& data,
                  std::vector<std::int64_t>& classes) {
  constexpr int kFashionMnistClasses = 10;
  const int count = data.name == "synthetic" ? data.classes : kFashionMnistClasses;
  parent.read(key, classes, between(0, count - 1));
  std::vector<std::int64_t> sorted = classes;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) parent.fail(key, "expected each class once");
}

void read_section(ConfigSection section, ModelConfig& model) {
  section.require("name");
  section.read("name", model.name, models::model_names());
  std::vector<std::string> own;
  if (section.has("name")) own = models::model_option_names(model.name);
  const auto has = [&](std::string_view key) {
    const bool found = std::ranges::find(own, key) != own.end();
    if (!found) reject_all(section, {key}, "model", model.name);
    return found;
  };
  models::ModelOptions& options = model.options;
  if (has("zero_init_residual")) section.read("zero_init_residual", options.zero_init_residual);
  if (has("stem")) section.read("stem", options.stem, kStems);
  if (has("width")) section.read("width", options.width, {.min = 0, .max = 16, .above_min = true});
  if (has("auxiliary")) section.read("auxiliary", options.auxiliary);
  if (has("graph_seed")) section.read("graph_seed", options.graph_seed);
  if (has("hidden")) section.read("hidden", options.hidden, between(1, 1e6));
  section.finish();
}

void read_section(ConfigSection section, DataConfig& data) {
  section.require("name");
  section.read("name", data.name, dataset_names());
  if (data.name == "synthetic") {
    reject_all(section, {"root"}, "dataset", data.name);
    section.read("size", data.size, between(1, 1e7));
    section.read("test_size", data.test_size, between(1, 1e7));
    section.read("image_size", data.image_size, between(1, 1024));
    section.read("channels", data.channels, between(1, 64));
    section.read("classes", data.classes, between(1, kMaxSyntheticClasses));
  } else {
    reject_all(section, {"size", "test_size", "image_size", "channels", "classes"}, "dataset", data.name);
    read_path(section, "root", data.root);
  }
  read_classes(section, "only_classes", data, data.only_classes);
  section.read("workers", data.workers, between(0, kMaxThreads));
  section.read("prefetch", data.prefetch, between(1, kMaxThreads));
  read_augmentation(section.section("augment"), data.augment);
  read_normalisation(section.section("normalize"), data);
  section.finish();
}

void read_section(ConfigSection section, OptimizerConfig& optimizer) {
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

void read_section(ConfigSection section, ScheduleOptions& schedule) {
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

TrainingSections::TrainingSections(ConfigSection& parent)
    : model(parent.section("model")),
      data(parent.section("data")),
      train(parent.section("train")),
      eval(parent.section("eval")),
      optimizer(parent.section("optimizer")),
      schedule(parent.section("schedule")) {}

void TrainingSections::read(TrainConfig& config) const {
  read_section(model, config.model);
  read_section(data, config.data);
  read_steps(train, config);
  read_evaluation(eval, config);
  read_section(optimizer, config.optimizer);
  read_section(schedule, config.schedule);
}

void read_session(ConfigSection& parent, SessionOptions& session) {
  parent.read("seed", session.seed);
  read_device(parent, session.device);
  if (parent.is_map("streams")) {
    read_partition(parent.section("streams"), session);
  } else {
    parent.read_or_word("streams", session.streams, between(1, kMaxStreams), "auto");
  }
  parent.read_or_word("width", session.width, between(1, kMaxThreads), "auto");
  parent.read_or_word("threads", session.threads, between(0, kMaxThreads), "all");
  parent.read("policy", session.policy, scheduler::policy_names());
  parent.read("deterministic", session.deterministic);
  parent.read("benchmark", session.benchmark);
  parent.read("cuda_graphs", session.cuda_graphs);
  std::int64_t workspace = static_cast<std::int64_t>(session.workspace_limit / kMiB);
  parent.read("workspace_limit", workspace, between(0, 1 << 20));
  session.workspace_limit = static_cast<std::size_t>(workspace) * kMiB;
  int memory = static_cast<int>(session.memory_limit / std::int64_t{kMiB});
  parent.read_or_word("memory_limit", memory, between(1, 1 << 24), "none");
  session.memory_limit = memory * std::int64_t{kMiB};
  read_path(parent, "costs", session.costs);
}

std::string_view precision_name(const SessionOptions& session, DType dtype) {
  return dtype == DType::f32 && session.tf32 ? "tf32" : name_of(dtype);
}

void read_precision(ConfigSection& parent, SessionOptions& session, DType& dtype) {
  std::string precision(precision_name(session, dtype));
  parent.read("precision", precision, kPrecisions);
  session.tf32 = precision == "tf32";
  dtype = precision == "bf16" ? DType::bf16 : precision == "f16" ? DType::f16 : DType::f32;
}

void read_job_precision(ConfigSection& parent, const SessionOptions& session, DType& dtype) {
  SessionOptions own = session;
  read_precision(parent, own, dtype);
  if (dtype == DType::f32 && own.tf32 != session.tf32) {
    parent.fail("precision",
                "all jobs that compute in f32 do so in the session's way: set f32 or tf32 beside the list of jobs");
  }
}

void read_name(ConfigSection& parent, std::string& name) {
  constexpr std::size_t kMaxLength = 100;
  parent.require("name");
  parent.read("name", name);
  if (parent.has("name") && !is_file_name(name)) {
    parent.fail("name",
                "names the run's folder: expected letters, digits, '_', '-' and '.', beginning with a letter, "
                "digit or '_'");
  }
  if (name.size() > kMaxLength) {
    parent.fail("name",
                message("names the run's folder: expected at most ", kMaxLength, " characters, got ", name.size()));
  }
}

void read_output(ConfigSection section, std::string& root) {
  read_path(section, "root", root);
  if (root.empty()) section.fail("root", "expected a folder, got ''");
  section.finish();
}

}  // namespace braid
