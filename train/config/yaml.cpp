// Configs written back as YAML.

#include <charconv>
#include <concepts>
#include <iomanip>
#include <sstream>

#include "train/config/sections.h"
#include "train/pathnet/config.h"

namespace braid {

namespace {

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

template <std::integral Integer>
std::string list(const std::vector<Integer>& values) {
  std::string out;
  for (const Integer value : values) out.append(out.empty() ? "" : ", ").append(std::to_string(value));
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
  if (!data.only_classes.empty()) out << "  only_classes: " << list(data.only_classes) << '\n';
  out << "  workers: " << data.workers << "\n  prefetch: " << data.prefetch
      << "\n  augment:\n    crop_padding: " << data.augment.crop_padding << "\n    flip: " << flag(data.augment.flip)
      << "\n    salt_and_pepper: " << number(data.augment.salt_and_pepper)
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

std::string streams_of(const SessionOptions& session) {
  if (session.partition.empty()) return count_or(session.streams, "auto");
  std::string list;
  for (const int part : session.partition) list += (list.empty() ? "" : ", ") + std::to_string(part);
  return "{partition: [" + list + "]}";
}

void write(std::ostream& out, const SessionOptions& session, DType dtype) {
  out << "seed: " << session.seed << "\ndevice: " << session.device << "\nstreams: " << streams_of(session)
      << "\nwidth: " << count_or(session.width, "auto") << "\nthreads: " << count_or(session.threads, "all")
      << "\npolicy: " << session.policy << "\nprecision: " << precision_name(session, dtype)
      << "\ndeterministic: " << flag(session.deterministic) << "\nbenchmark: " << flag(session.benchmark)
      << "\ncuda_graphs: " << flag(session.cuda_graphs) << "\nworkspace_limit: " << (session.workspace_limit >> 20)
      << "\nmemory_limit: " << count_or(session.memory_limit >> 20, "none") << "\ncosts: " << as_scalar(session.costs)
      << '\n';
}

void write(std::ostream& out, const ModelConfig& model) {
  out << "model:\n  name: " << model.name << '\n';
  const models::ModelOptions& options = model.options;
  for (const std::string& key : models::model_option_names(model.name)) {
    out << "  " << key << ": ";
    if (key == "zero_init_residual") out << flag(options.zero_init_residual);
    if (key == "stem") out << options.stem;
    if (key == "width") out << number(options.width);
    if (key == "auxiliary") out << flag(options.auxiliary);
    if (key == "graph_seed") out << options.graph_seed;
    if (key == "hidden") out << list(options.hidden);
    out << '\n';
  }
}

void write(std::ostream& out, const models::PathNetOptions& net) {
  const bool conv = net.form == models::PathNetOptions::Form::conv;
  out << "model:\n  name: " << (conv ? "pathnet_conv" : "pathnet_linear") << "\n  layers: " << net.grid.layers
      << "\n  modules: " << net.grid.modules << "\n  active: " << net.grid.active << "\n  "
      << (conv ? "channels: " : "units: ") << net.width << '\n';
}

void write_evolution(std::ostream& out, const PathNetConfig& config) {
  const TournamentOptions& tournament = config.tournament;
  out << "evolution:\n  task_a: " << list(config.task_a) << "\n  task_b: " << list(config.task_b)
      << "\n  seeds: " << list(config.seeds) << "\n  population: " << config.population
      << "\n  tournament: " << (tournament.order == Tournament::concurrent ? "concurrent" : "sequential")
      << "\n  candidates: " << tournament.candidates << "\n  batches: " << tournament.batches
      << "\n  threshold: " << number(config.threshold) << "\n  max_generations: " << config.max_generations
      << "\n  frozen_path: " << (config.frozen_path == FrozenPath::selectable ? "selectable" : "always_active") << '\n';
}

/// All but name, session and output.
void write_training(std::ostream& out, const TrainConfig& config) {
  write(out, config.model);
  write(out, config.data);
  out << "train:\n  epochs: " << config.epochs << "\n  batch_size: " << config.batch_size
      << "\n  drop_last: " << flag(config.drop_last) << "\n  label_smoothing: " << number(config.label_smoothing)
      << "\n  log_interval: " << config.log_interval << "\n  max_steps: " << config.max_steps
      << "\neval:\n  batch_size: " << config.eval_batch_size << '\n';
  write(out, config.optimizer);
  write(out, config.schedule);
}

void write_job(std::ostream& out, const JobConfig& job) {
  std::ostringstream text;
  text << "name: " << as_scalar(job.training.name) << "\nseed: " << job.training.session.seed
       << "\nprecision: " << precision_name(job.training.session, job.training.dtype)
       << "\nsteps_per_turn: " << count_or(job.steps_per_turn, "auto") << '\n';
  write_training(text, job.training);
  std::istringstream lines(text.str());
  const char* indent = "  - ";
  for (std::string line; std::getline(lines, line); indent = "    ") out << indent << line << '\n';
}

}  // namespace

std::string to_yaml(const TrainConfig& config) {
  std::ostringstream out;
  out << "name: " << as_scalar(config.name) << '\n';
  write(out, config.session, config.dtype);
  write_training(out, config);
  out << "output:\n  root: " << as_scalar(config.output_root) << '\n';
  return out.str();
}

std::string to_yaml(const RunConfig& config) {
  if (!config.together) return to_yaml(config.jobs.front().training);
  std::ostringstream out;
  out << "name: " << as_scalar(config.name) << '\n';
  write(out, config.jobs.front().training.session, DType::f32);  // every job has a precision of its own
  out << "jobs:\n";
  for (const JobConfig& job : config.jobs) write_job(out, job);
  out << "output:\n  root: " << as_scalar(config.output_root) << '\n';
  return out.str();
}

std::string to_yaml(const PathNetConfig& config) {
  std::ostringstream out;
  out << "name: " << as_scalar(config.name) << '\n';
  write(out, config.session, config.tournament.dtype);
  write(out, config.net);
  write(out, config.data);
  out << "train:\n  batch_size: " << config.batch_size << "\noptimizer:\n  lr: " << number(config.tournament.lr)
      << '\n';
  write_evolution(out, config);
  out << "output:\n  root: " << as_scalar(config.output_root) << '\n';
  return out.str();
}

}  // namespace braid
