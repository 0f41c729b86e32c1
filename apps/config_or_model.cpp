#include "apps/config_or_model.h"

#include <filesystem>

#include "models/registry.h"

namespace braid::apps {

namespace {

/// Data that the model can learn from: images like ImageNet's if they have classes.
const char* data_for(models::Task task) {
  switch (task) {
    case models::Task::segmentation: return R"("name": "shapes", "image_size": 224)";
    case models::Task::verification: return R"("name": "synthetic", "image_size": 28, "channels": 1, "pairs": true)";
    case models::Task::generation: return R"("name": "synthetic", "image_size": 64)";
    case models::Task::classification: break;
  }
  return R"("name": "synthetic", "image_size": 224, "classes": 1000)";
}

}  // namespace

std::string config_of_model(const std::string& model) {
  return message(R"({"name": "summary", "model": {"name": ")", model, R"("}, "data": {"size": 32, "val_size": 2, )",
                 data_for(models::model_task(model)), R"(}, "train": {"epochs": 1, "batch_size": 32}})");
}

RunConfig read_config_or_model(const ConfigArguments& arguments) {
  const auto& [path, overrides] = arguments;
  const bool is_name = path.find_first_of("./") == std::string::npos && !std::filesystem::exists(path);
  return is_name ? read_run_config(parse_config(config_of_model(path), path), overrides)
                 : read_run_config(path, overrides);
}

TrainConfig single_job(const RunConfig& run, const std::string& source) {
  BRAID_CHECK(!run.together, ConfigError, source, ": expected a single job: give the folder of one of its jobs");
  return run.jobs.front().training;
}

}  // namespace braid::apps
