#pragma once
// For commands that look at a model and train nothing: a model's name does for a config.

#include "apps/commands.h"
#include "train/config/config.h"

namespace braid::apps {

inline constexpr const char* kConfigOrModel =
    "Config file (YAML), or the name of a model ('braid models' lists them); a model alone gets 32 images of 224x224x3 "
    "and 1000 classes, which --set changes";

/// Throws ConfigError as read_run_config does, and Error if what looks like a model's name is none.
RunConfig read_config_or_model(const ConfigArguments& arguments);

}  // namespace braid::apps
