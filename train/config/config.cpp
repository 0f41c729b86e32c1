#include "train/config/config.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "train/pathnet/config.h"

namespace braid {

namespace {

/// Sections that jobs may share.
std::vector<std::string_view> shared_sections() {
  constexpr std::string_view kOfJobs = "jobs.*.";
  std::vector<std::string_view> sections;
  for (const Key& key : keys_of<RunConfig>()) {
    const std::string_view path = key.path;
    if (key.kind != Key::Kind::section || !path.starts_with(kOfJobs)) continue;
    const std::string_view section = path.substr(kOfJobs.size());
    if (section.find('.') == std::string_view::npos) sections.push_back(section);
  }
  return sections;
}

/// Copies the sections beside the list of jobs into every job. A job's own section overrides the shared one key by key;
/// a section with a key "name" replaces the shared one.
class Sharing {
 public:
  ConfigNode operator()(ConfigNode tree) {
    ConfigNode& jobs = tree.find("jobs")->value;
    const auto is_map = [](const ConfigNode& job) { return job.kind == ConfigNode::Kind::map; };
    const bool valid = std::ranges::all_of(jobs.items, is_map);  // if not, that is the error to report
    const std::vector<std::string_view> sections = shared_sections();
    for (const std::string_view section : sections) {
      const ConfigNode::Entry* shared = tree.find(section);
      if (shared == nullptr || !valid || jobs.items.empty()) continue;
      for (ConfigNode& job : jobs.items) add(job, *shared);
      check_use(*shared, shared->key);
    }
    std::erase_if(tree.entries, [&](const auto& entry) { return std::ranges::count(sections, entry.key) > 0; });
    return tree;
  }

 private:
  void add(ConfigNode& map, const ConfigNode::Entry& shared) {
    ConfigNode::Entry* own = map.find(shared.key);
    if (own == nullptr) {
      map.entries.push_back(shared);
      used_.insert(&shared);
    } else if (own->value.kind == ConfigNode::Kind::map && own->value.find("name") == nullptr) {
      for (const ConfigNode::Entry& entry : shared.value.entries) add(own->value, entry);
    }
  }

  /// Throws if no job takes the key.
  void check_use(const ConfigNode::Entry& shared, const std::string& path) const {
    if (used_.contains(&shared)) return;
    BRAID_CHECK(!shared.value.entries.empty(), ConfigError, shared.location, ": ", path,
                ": has no effect, because every job has its own");
    for (const ConfigNode::Entry& entry : shared.value.entries) check_use(entry, message(path, '.', entry.key));
  }

  std::set<const ConfigNode::Entry*> used_;
};

}  // namespace

void ModelConfig::declare(const Keys& keys) {
  keys("name", name,
       {.words = models::model_names(), .required = true, .synonyms = {"arch", "architecture", "model_name"}},
       "the network: see [models.md](models.md), or `braid models`");
  keys("freeze", freeze, {.synonyms = {"frozen", "freeze_layers"}},
       "parameters that are not trained: patterns of their names as in a shell, for example `[conv1.*, layer1.*]`");
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
       "has another number of classes, the classifier starts at random; empty: all random");
}

void TrainConfig::declare(const Keys& keys) {
  declare_name(keys, name);
  declare_seed(keys, session.seed);
  declare_session(keys, session);
  declare_precision(keys, session, dtype);
  keys.reject("balance", "has no meaning without a list of jobs");
  keys.reject("evolution", "makes this the config of a PathNet run, which is for 'braid train' only");
  declare_training(keys);
  declare_output(keys, output_root);
}

void JobConfig::declare(const Keys& keys, const SessionOptions& session) {
  declare_name(keys, training.name);
  declare_seed(keys, training.session.seed);
  declare_precision(keys, training.session, training.dtype);
  keys.check("precision", training.dtype != DType::f32 || training.session.tf32 == session.tf32,
             "all f32 jobs share one setting: set auto, f32 or tf32 beside the list of jobs");
  training.session.tf32 = session.tf32;
  SessionOptions shared;
  for (const Key& key : note_keys([&](const Keys& of_session) { declare_session(of_session, shared); })) {
    if (key.path.find('.') == std::string::npos)
      keys.reject(key.path, "is shared by all jobs: it belongs beside the list of jobs");
  }
  keys.reject("output", "is shared by all jobs: it belongs beside the list of jobs");
  keys("steps_per_turn", steps_per_turn, {.min = 1, .max = 64, .word = "auto"},
       "steps that the job takes per turn; `auto` leaves it to `balance`");
  training.declare_training(keys);
}

void RunConfig::declare(const Keys& keys) {
  together = true;
  SessionOptions session = jobs.empty() ? SessionOptions{} : jobs.front().training.session;
  DType dtype = DType::f32;  // the default; every job has its own precision
  declare_name(keys, name);
  declare_seed(keys, session.seed);
  declare_session(keys, session);
  declare_precision(keys, session, dtype);
  const auto balanced = [](const JobConfig& job) { return job.steps_per_turn == 0; };
  std::string balance = jobs.empty() || std::ranges::any_of(jobs, balanced) ? "auto" : "none";
  keys("balance", balance, {.words = {"auto", "none"}},
       "`auto` gives each job without `steps_per_turn` the number of steps, at most 16, whose measured time is closest "
       "to that of the longest job. `none` gives one step");
  declare_output(keys, output_root);
  keys.list("jobs", "the models to train together", jobs, [&](const Keys& of_job, JobConfig& job) {
    if (job.training.name.empty()) {  // it has not been read yet
      job.training.session = session;
      job.training.dtype = dtype;
      job.training.output_root = output_root;
      job.steps_per_turn = balance == "auto" ? 0 : 1;
    }
    job.declare(of_job, session);
    const auto same_name = [&](const JobConfig& other) { return other.training.name == job.training.name; };
    of_job.check("name", std::ranges::count_if(jobs, same_name) <= 1, "another job already has this name");
  });
}

RunConfig read_run_config(ConfigNode tree, const std::vector<std::string>& overrides) {
  for (const std::string& assignment : overrides) apply_override(tree, assignment);
  if (tree.find("jobs") != nullptr) return read_config<RunConfig>(Sharing()(std::move(tree)));
  const auto config = read_config<TrainConfig>(tree);
  return {config.name, config.output_root, {{config, 1}}, false};
}

RunConfig read_run_config(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return read_run_config(read_config_file(path), overrides);
}

ConfigKinds config_kinds() { return {keys_of<TrainConfig>(), keys_of<RunConfig>(), keys_of<PathNetConfig>()}; }

std::string to_yaml(TrainConfig config) {
  return to_yaml(note_keys([&](const Keys& keys) { config.declare(keys); }));
}

std::string to_yaml(RunConfig config) {
  if (!config.together) return to_yaml(config.jobs.front().training);
  return to_yaml(note_keys([&](const Keys& keys) { config.declare(keys); }));
}

}  // namespace braid
