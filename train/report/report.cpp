#include "train/report/report.h"

#include <nlohmann/json.hpp>

#include "scheduler/show/plan_page.h"
#include "train/report/measured_step.h"
#include "train/report/test_images.h"
#include "train/run/metrics_log.h"
#include "train/run/run_folder.h"

namespace braid {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

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

Json json_of(const TestImages& test) {
  Json confusion = Json::array(), mistakes = Json::array();
  for (const auto& [classes, images] : test.confusion) confusion.push_back({classes.first, classes.second, images});
  for (const Mistake& mistake : test.mistakes) {
    mistakes.push_back({{"label", mistake.label},
                        {"predicted", mistake.predicted},
                        {"probability", mistake.probability},
                        {"loss", mistake.loss},
                        {"png", base64(mistake.png)}});
  }
  return {{"classes", test.classes},   {"images", test.images},  {"loss", test.loss},
          {"accuracy", test.accuracy}, {"confusion", confusion}, {"mistakes", mistakes}};
}

Json json_of(const std::string& name, const TrainConfig& config, const std::string& device, const fs::path& folder) {
  Json metrics = Json::array();
  for (const auto& record : read_metrics(folder)) metrics.push_back(Json::parse(record.dump()));
  Json run{{"name", name},
           {"model", config.model.name},
           {"dataset", config.data.name},
           {"device", device},
           {"precision", message(config.dtype)},
           {"batch_size", config.batch_size},
           {"epochs", config.epochs},
           {"metrics", metrics}};
  const fs::path model = folder / RunFolder::kModel;
  if (exists(model)) run["test"] = json_of(look_at_test_images(config, model, kMistakes));
  return run;
}

/// "lenet5-1", also for the folder "." in it.
std::string name_of(const fs::path& folder) {
  const fs::path whole = weakly_canonical(folder);
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace

std::string report_page(std::span<const fs::path> folders, const std::vector<std::string>& overrides) {
  Json runs = Json::array(), plans = Json::array();
  for (const fs::path& folder : folders) {
    const fs::path file = folder / RunFolder::kConfig;
    BRAID_CHECK(exists(file), ConfigError, folder.string(), ": there is no ", RunFolder::kConfig,
                ": expected the folder of a run");
    const RunConfig config = read_run_config(file, overrides);
    const scheduler::PlanView step = measured_step(config);
    const std::string name = name_of(folder);
    for (const JobConfig& job : config.jobs) {
      const std::string& own = job.training.name;
      runs.push_back(config.together ? json_of(message(name, '/', own), job.training, step.device, folder / own)
                                     : json_of(name, job.training, step.device, folder));
    }
    plans.push_back({{"name", name}, {"page", scheduler::plan_page(step)}});
  }
  const Json data{{"runs", runs}, {"plans", plans}};
  return scheduler::filled_page(kReportTemplate, data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace braid
