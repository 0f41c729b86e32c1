#include "train/config/config.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "train/config/sections.h"

namespace braid {

namespace {

constexpr std::string_view kShared[] = {"model", "data", "train", "eval", "optimizer", "schedule"};
const std::vector<std::string> kBalances{"auto", "none"};

RunConfig read_single(const ConfigNode& tree) {
  TrainConfig config;
  ConfigSection root(tree);
  read_name(root, config.name);
  read_session(root, config.session);
  read_precision(root, config.session, config.dtype);
  root.reject("balance", "has no meaning without a list of jobs");
  root.reject("evolution", "makes this the config of a PathNet run, which is for 'braid train' only");
  const TrainingSections sections(root);
  const ConfigSection output = root.section("output");
  root.finish();
  sections.read(config);
  read_output(output, config.output_root);
  return {config.name, config.output_root, {{config, 1}}, false};
}

/// Fills in what jobs share: sections that stand beside the list of jobs. A job's own section adds to the shared one
/// key by key; one with a name is another choice, and replaces it.
class Sharing {
 public:
  ConfigNode operator()(ConfigNode tree) {
    ConfigNode& jobs = tree.find("jobs")->value;
    const auto is_map = [](const ConfigNode& job) { return job.kind == ConfigNode::Kind::map; };
    if (jobs.items.empty() || !std::ranges::all_of(jobs.items, is_map)) return tree;  // a mistake, found when reading
    for (const std::string_view section : kShared) {
      const ConfigNode::Entry* shared = tree.find(section);
      if (shared == nullptr) continue;
      for (ConfigNode& job : jobs.items) add(job, *shared);
      check_use(*shared, shared->key);
    }
    std::erase_if(tree.entries, [](const auto& entry) { return std::ranges::count(kShared, entry.key) > 0; });
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

JobConfig read_job(ConfigSection section, const RunConfig& run, const SessionOptions& session, DType dtype,
                   bool balanced) {
  JobConfig job;
  job.training.session = session;
  job.training.dtype = dtype;
  job.steps_per_turn = balanced ? 0 : 1;
  read_name(section, job.training.name);
  section.read("seed", job.training.session.seed);
  read_job_precision(section, session, job.training.dtype);
  for (const std::string_view key : {"device", "streams", "width", "threads", "policy", "deterministic", "benchmark",
                                     "cuda_graphs", "workspace_limit", "memory_limit", "costs", "output"}) {
    section.reject(key, "is shared by all jobs: it belongs beside the list of jobs");
  }
  section.read_or_word("steps_per_turn", job.steps_per_turn, between(1, kMaxStepsPerTurn), "auto");
  const TrainingSections sections(section);
  section.finish();
  sections.read(job.training);
  job.training.output_root = run.output_root;
  return job;
}

RunConfig read_jobs(const ConfigNode& tree) {
  RunConfig run;
  run.together = true;
  SessionOptions session;
  DType dtype = DType::f32;
  std::string balance = "auto";
  ConfigSection root(tree);
  read_name(root, run.name);
  read_session(root, session);
  read_precision(root, session, dtype);
  root.read("balance", balance, kBalances);
  const ConfigSection output = root.section("output");
  const std::vector<ConfigSection> sections = root.sections("jobs");
  root.finish();
  read_output(output, run.output_root);
  for (const ConfigSection& section : sections) {
    run.jobs.push_back(read_job(section, run, session, dtype, balance == "auto"));
    const auto same_name = [&](const JobConfig& job) { return job.training.name == run.jobs.back().training.name; };
    if (std::ranges::count_if(run.jobs, same_name) > 1) section.fail("name", "another job has this name already");
  }
  return run;
}

TrainConfig single_job(const RunConfig& run, const std::string& source) {
  BRAID_CHECK(!run.together, ConfigError, source, ": expected the config of a single job, got a list of jobs");
  return run.jobs.front().training;
}

}  // namespace

RunConfig read_run_config(ConfigNode tree, const std::vector<std::string>& overrides) {
  for (const std::string& assignment : overrides) apply_override(tree, assignment);
  return tree.find("jobs") == nullptr ? read_single(tree) : read_jobs(Sharing()(std::move(tree)));
}

RunConfig read_run_config(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return read_run_config(read_config_file(path), overrides);
}

TrainConfig parse_train_config(std::string_view text, const std::string& source,
                               const std::vector<std::string>& overrides) {
  return single_job(read_run_config(parse_config(text, source), overrides), source);
}

TrainConfig read_train_config(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return single_job(read_run_config(path, overrides), path.string());
}

}  // namespace braid
