#pragma once
// Helps commands that inspect a model without training it: they accept the name of a model in place of a config, or the
// folder of a run.

#include "apps/commands.h"
#include "train/config/config.h"

namespace braid::apps {

inline constexpr const char* kConfigOrModel =
    "Config file (YAML), or the name of a model ('braid models' lists them); a bare model name uses 32 images of "
    "224x224x3 and 1000 classes; change them with --set";

/// The config of a bare model name, as JSON, which is YAML. Throws Error if there is no such model.
std::string config_of_model(const std::string& model);

/// Throws ConfigError as read_run_config does, and Error for the name of an unknown model.
RunConfig read_config_or_model(const ConfigArguments& arguments);

/// The job of a run that has only one. Throws ConfigError, which begins with `source`, if it has several.
TrainConfig single_job(const RunConfig& run, const std::string& source);

}  // namespace braid::apps
