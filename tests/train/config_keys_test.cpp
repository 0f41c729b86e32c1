#include <doctest/doctest.h>

#include <algorithm>

#include "core/error.h"
#include "tests/data/files.h"
#include "train/config/config.h"
#include "train/config/keys.h"
#include "train/pathnet/config.h"

using namespace braid;
using namespace braid::testing;

namespace {

const std::string kSingle = "name: x\nmodel: {name: lenet5}\ndata: {name: synthetic}\ntrain: {epochs: 1}\n";
const std::string kWithJobs =
    "name: x\njobs:\n  - {name: a, model: {name: mlp}, data: {name: synthetic}, train: {epochs: 1}}\n";
const std::string kPathNet =
    "name: x\nmodel: {name: pathnet_linear}\ndata: {name: synthetic}\nevolution: {task_a: [0, 1], task_b: [6, 1]}\n";

std::string error_of_key(const std::string& text, const std::string& override) {
  return error_of<ConfigError>([&] {
    const ConfigNode tree = parse_config(text, "x.yaml");
    if (!read_pathnet_config(tree, {override})) read_run_config(tree, {override});
  });
}

std::string error_of_single_with(const std::string& line) {
  return error_of<ConfigError>([&] { parse_train_config(kSingle + line, "x.yaml"); });
}

/// Adds the paths of all keys within a map; items of a list of jobs have no names.
void collect(const ConfigNode& map, const std::string& path, std::vector<std::string>& paths) {
  for (const ConfigNode::Entry& entry : map.entries) {
    paths.push_back(path + entry.key);
    collect(entry.value, paths.back() + '.', paths);
    for (const ConfigNode& item : entry.value.items) collect(item, "", paths);
  }
}

}  // namespace

TEST_CASE("every listed key is one that some config has") {
  for (const std::string_view name : config_keys()) {
    const std::string key(name);
    CAPTURE(key);
    const bool known = std::ranges::any_of(std::vector{kSingle, kWithJobs, kPathNet}, [&](const std::string& text) {
      const std::string error = error_of_key(text, key + "=[]");
      const std::string here = "--set " + key + "=[]: ";
      return error.empty() || (error.starts_with(here) && !contains(error, "unknown key") &&
                               !contains(error, "makes this the config of a PathNet run"));
    });
    CHECK(known);
  }
}

TEST_CASE("every key of a config that is written in full is listed") {
  std::vector<std::string> texts{to_yaml(*read_pathnet_config(parse_config(kPathNet, "x.yaml"))),
                                 to_yaml(read_run_config(parse_config(kWithJobs, "x.yaml")))};
  for (const std::vector<std::string>& choice : std::vector<std::vector<std::string>>{
           {"model.name=mlp", "data={name: fashion_mnist}"},
           {"model.name=randwire", "optimizer.name=adam", "schedule={name: step, step_epochs: 1}"},
           {"model.name=googlenet", "schedule.name=cosine", "streams={partition: [8]}"},
           {"model.name=resnet18", "schedule.name=one_cycle", "data.only_classes=[1, 2]"},
           {"model.name=pathnet_conv", "schedule={name: step, milestones: [1]}"}}) {
    texts.push_back(to_yaml(parse_train_config(kSingle, "x.yaml", choice)));
  }
  std::vector<std::string> paths;
  for (const std::string& text : texts) collect(parse_config(text, "y.yaml"), "", paths);
  CHECK(paths.size() > config_keys().size());
  for (const std::string& path : paths) {
    CAPTURE(path);
    if (path != "steps_per_turn") CHECK(std::ranges::count(config_keys(), path) == 1);  // of a job only
  }
}

TEST_CASE("a key of another framework is translated") {
  CHECK(error_of_single_with("learning_rate: 1") ==
        "x.yaml:5:1: learning_rate: unknown key (did you mean 'optimizer.lr'?)");
  CHECK(contains(error_of_single_with("optimizer: {learning-rate: 1}"),
                 "optimizer.learning-rate: unknown key (did you mean 'lr'?)"));
  CHECK(contains(error_of_single_with("eval: {batch: 1}"), "eval.batch: unknown key (did you mean 'batch_size'?)"));
  CHECK(contains(error_of_single_with("lr_policy: step"), "(did you mean 'schedule.name'?)"));  // not our 'policy'
  CHECK(contains(error_of_single_with("Batch: 8"), "(did you mean 'train.batch_size'?)"));
  CHECK(contains(error_of_single_with("num_workers: 8"), "(did you mean 'data.workers'?)"));
  CHECK(contains(error_of_single_with("max_epochs: 8"), "(did you mean 'train.epochs'?)"));
}

TEST_CASE("a key in the wrong section is found in its own") {
  CHECK(contains(error_of_single_with("momentum: 0.9"), "momentum: unknown key (did you mean 'optimizer.momentum'?)"));
  CHECK(contains(error_of_single_with("batch_size: 8"), "(did you mean 'train.batch_size' or 'eval.batch_size'?)"));
  CHECK(contains(error_of_single_with("optimizer: {seed: 3}"), "(did you mean 'seed' at the top level?)"));
  CHECK(contains(error_of_single_with("label_smothing: 1"), "(did you mean 'train.label_smoothing'?)"));
  CHECK(contains(error_of_single_with("trian: {epochs: 1}"), "(did you mean 'train'?)"));
}

TEST_CASE("a name in place of a section is led to its key") {
  CHECK(contains(error_of_single_with("optimizer: adam"),
                 "expected a section, got 'adam' (did you mean 'optimizer.name'?)"));
  CHECK(contains(error_of_single_with("eval: 16"), "eval: expected a section, got '16'"));
  CHECK(contains(error_of_key(kSingle, "jobs=[]"), "expected a list of sections, got an empty list"));
}

TEST_CASE("a key that is right, but not for this config, is not suggested again") {
  CHECK(error_of_key(kPathNet, "optimizer.momentum=0.9") == "--set optimizer.momentum=0.9: unknown key");
}
