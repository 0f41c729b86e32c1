#include "train/report/report.h"

#include "core/text/json.h"
#include "train/inspect/bench/joint_bench.h"
#include "train/report/plan/plan_page.h"
#include "train/report/val_images.h"
#include "train/run/log/metrics_log.h"
#include "train/run/log/run_folder.h"

namespace braid {

namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMistakes = 24;  // on the page, per run

/// RFC 4648.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view part = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8U | (i < part.size() ? static_cast<unsigned char>(part[i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) text += i <= part.size() ? kDigits[(bits >> (18 - 6 * i)) & 63U] : '=';
  }
  return text;
}

Json json_of(const ValImages& val) {
  Json confusion = Json::array(), mistakes = Json::array();
  for (const auto& [classes, images] : val.confusion)
    confusion.push_back(Json::array({classes.first, classes.second, images}));
  for (const Mistake& mistake : val.mistakes) {
    mistakes.push_back({{"label", mistake.label},
                        {"predicted", mistake.predicted},
                        {"probability", mistake.probability},
                        {"loss", mistake.loss},
                        {"file", mistake.file},
                        {"png", base64(mistake.png)}});
  }
  return {{"classes", val.classes}, {"images", val.images}, {"loss", val.loss},      {"accuracy", val.accuracy},
          {"confusion", confusion}, {"mistakes", mistakes}, {"warning", val.warning}};
}

Json json_of(const std::string& name, const TrainConfig& config, const fs::path& folder) {
  std::vector<Json> metrics;
  if (exists(folder / MetricsLog::kJson)) metrics = read_metrics(folder);  // or training has just begun
  Json settings = Json::object();                                          // of keys that have a value
  TrainConfig declared = config;
  for (const Key& key : note_keys([&](const Keys& keys) { declared.declare(keys); })) {
    if (key.kind == Key::Kind::value && accepts(key.rule, key.value)) settings[key.path] = to_yaml(key.rule, key.value);
  }
  return {{"name", name},
          {"config", settings},
          {"model", config.model.title()},
          {"dataset", config.data.name},
          {"precision", message(config.dtype)},
          {"batch_size", config.batch_size},
          {"epochs", config.epochs},
          {"metrics", metrics}};
}

/// "lenet5-1", also for the folder "." in it.
std::string name_of(const fs::path& folder) {
  const fs::path whole = weakly_canonical(folder);
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

RunConfig config_in(const fs::path& folder, const std::vector<std::string>& overrides) {
  const fs::path file = folder / RunFolder::kConfig;
  BRAID_CHECK(exists(file), ConfigError, folder.string(), ": there is no ", RunFolder::kConfig,
              ": expected the folder of a run");
  return read_run_config(file, overrides);
}

fs::path folder_of(const JobConfig& job, const RunConfig& config, const fs::path& run) {
  return config.together ? run / job.training.name : run;
}

/// What is known about each job of a run without any computation.
std::vector<Json> jobs_in(const fs::path& folder, const RunConfig& config, const std::string& name) {
  std::vector<Json> jobs;
  for (const JobConfig& job : config.jobs) {
    jobs.push_back(json_of(config.together ? message(name, '/', job.training.name) : name, job.training,
                           folder_of(job, config, folder)));
  }
  return jobs;
}

}  // namespace

std::string report_page(std::span<const fs::path> folders, const std::vector<std::string>& overrides,
                        const std::string& checkpoint) {
  Json runs = Json::array(), plans = Json::array();
  for (const fs::path& run : folders) {
    const fs::path folder = RunFolder::of_model(run);
    const RunConfig config = config_in(folder, overrides);
    scheduler::PlanView step = JointBench(config).measured_step();
    step.title = config.name;
    std::vector<Json> jobs = jobs_in(folder, config, name_of(run));
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      jobs[i]["device"] = step.device;
      const fs::path model = RunFolder::checkpoint(folder_of(config.jobs[i], config, folder), checkpoint);
      if (exists(model) || !checkpoint.empty()) {
        jobs[i]["val"] = json_of(look_at_val_images(config.jobs[i].training, model, kMistakes));
      }
      runs.push_back(std::move(jobs[i]));
    }
    plans.push_back({{"name", name_of(run)}, {"page", scheduler::plan_page(step)}});
  }
  return scheduler::filled_page(kReportTemplate, Json{{"runs", runs}, {"plans", plans}}.dump_sorted());
}

LiveReport::LiveReport(std::vector<fs::path> folders, std::vector<std::string> overrides)
    : folders_(std::move(folders)), overrides_(std::move(overrides)) {
  for (const fs::path& folder : folders_) config_in(folder, overrides_);
}

std::string LiveReport::data() const {
  Json runs = Json::array(), problems = Json::array();
  for (const fs::path& folder : folders_) {
    try {
      for (const Json& job : jobs_in(folder, config_in(folder, overrides_), name_of(folder))) runs.push_back(job);
    } catch (const std::exception& error) {
      problems.push_back(error.what());
    }
  }
  return Json{{"runs", runs}, {"plans", Json::array()}, {"live", true}, {"problems", problems}}.dump_sorted();
}

std::string LiveReport::page() const { return scheduler::filled_page(kReportTemplate, data()); }

}  // namespace braid
