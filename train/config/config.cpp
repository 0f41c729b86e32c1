#include "train/config/config.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "train/config/pathnet_config.h"

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

/// Copies the sections next to the list of jobs into every job. A job's own section overrides the shared one key by
/// key; a section with a key "name" or "layers" replaces the shared one.
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
    } else if (own->value.kind == ConfigNode::Kind::map && own->value.find("name") == nullptr &&
               own->value.find("layers") == nullptr) {
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

void TrainConfig::declare(const Keys& keys) {
  declare_name(keys, name);
  declare_seed(keys, session.seed);
  declare_session(keys, session);
  declare_precision(keys, session, dtype);
  keys.reject("balance", "has no meaning without a list of jobs");
  keys.reject("evolution",
              "makes this the config of a PathNet run, which is for 'braid train'; other commands take its folder, "
              "once it has learned task B");
  declare_training(keys);
  declare_output(keys, output_root);
  keys.check(
      "parallel", !session.parallel.exchanges_otherwise() || dtype != DType::f16,
      "compression, staleness and average_every need gradients that are not scaled: set precision to f32 or bf16");
  keys.check("parallel", !session.parallel.exchanges_otherwise() || accumulate == 1,
             "compression, staleness and average_every need train.accumulate of 1");
}

void JobConfig::declare(const Keys& keys, const SessionOptions& session) {
  declare_name(keys, training.name);
  declare_seed(keys, training.session.seed);
  declare_precision(keys, training.session, training.dtype);
  keys.check("precision", training.dtype != DType::f32 || training.session.tf32 == session.tf32,
             "all f32 jobs share one setting: set auto, f32 or tf32 next to the list of jobs");
  training.session.tf32 = session.tf32;
  SessionOptions shared;
  for (const Key& key : note_keys([&](const Keys& of_session) { declare_session(of_session, shared); })) {
    if (key.path.find('.') == std::string::npos)
      keys.reject(key.path, "is shared by all jobs: it belongs next to the list of jobs");
  }
  keys.reject("output", "is shared by all jobs: it belongs next to the list of jobs");
  keys("steps_per_round", steps_per_round, {.min = 1, .max = 64, .word = "auto", .formerly = "jobs.*.steps_per_turn"},
       "steps of the job in each round; `auto` leaves it to `balance`");
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
  const auto balanced = [](const JobConfig& job) { return job.steps_per_round == 0; };
  std::string balance = jobs.empty() || std::ranges::any_of(jobs, balanced) ? "auto" : "none";
  keys("balance", balance, {.words = {"auto", "none"}},
       "`auto` measures a step of each job alone and gives shorter jobs several steps per round, at most 16, so that "
       "all take about as long as the longest. `none` gives each job one step. `steps_per_round` overrides both for a "
       "job");
  declare_output(keys, output_root);
  keys.list("jobs", jobs, {.min_items = 1, .required = true}, "the models to train together",
            [&](const Keys& of_job, JobConfig& job) {
              if (job.training.name.empty()) {  // it has not been read yet
                job.training.session = session;
                job.training.dtype = dtype;
                job.training.output_root = output_root;
                job.steps_per_round = balance == "auto" ? 0 : 1;
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
