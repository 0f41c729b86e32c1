#include <doctest/doctest.h>

#include <algorithm>

#include "tests/train/single_job.h"
#include "train/config/similar_keys.h"

using namespace braid;
using namespace braid::testing;

namespace {

const std::string kSingle = "name: x\nmodel: {name: lenet5}\ndata: {name: synthetic}\ntrain: {epochs: 1}\n";
const std::string kPathNet =
    "name: x\nmodel: {name: pathnet_linear}\ndata: {name: synthetic}\nevolution: {task_a: [0, 1], task_b: [6, 1]}\n";

std::string error_of_single_with(const std::string& line) { return error_in(kSingle + line); }

}  // namespace

TEST_CASE("a key is noted with its type, its default, and the names that have it") {
  const std::vector<Key>& keys = keys_of<TrainConfig>();
  const auto key = [&](std::string_view path) {
    const auto found = std::ranges::find(keys, path, &Key::path);
    REQUIRE(found != keys.end());
    return *found;
  };
  CHECK(key("train.batch_size").value == KeyValue(std::int64_t{64}));
  CHECK(key("train.batch_size").only_for.empty());
  CHECK(key("train.epochs").rule.required);
  CHECK(key("optimizer.beta1").only_for == std::vector<std::string>{"adam", "adamw"});
  CHECK(key("schedule.warmup_epochs").only_for == std::vector<std::string>{"constant", "step", "cosine", "plateau"});
  CHECK(key("data.augment.flip").only_for.empty());
  CHECK(key("optimizer.lr").value == KeyValue(0.1));
  CHECK(key("optimizer.lr").defaults ==
        std::vector<std::pair<std::string, KeyValue>>{{"adam", KeyValue(0.001)}, {"adamw", KeyValue(0.001)}});
  CHECK(key("model.hidden").only_for == std::vector<std::string>{"mlp"});
}

TEST_CASE("every key has a sentence, and a synonym is no key and belongs to one key only") {
  std::vector<std::string> synonyms;
  const auto [single, jobs, pathnet] = config_kinds();
  for (const std::vector<Key>* kind : {&single, &jobs, &pathnet}) {
    for (const Key& key : *kind) {
      CAPTURE(key.path);
      CHECK_FALSE(key.text.empty());
      const bool of_items = key.path.find('*') != std::string::npos;  // these hold within their section alone
      if (kind == &single && !of_items)
        synonyms.insert(synonyms.end(), key.rule.synonyms.begin(), key.rule.synonyms.end());
    }
  }
  CHECK(synonyms.size() > 50);
  for (const std::string& synonym : synonyms) {
    CAPTURE(synonym);
    CHECK(std::ranges::count(synonyms, synonym) == 1);
    CHECK(std::ranges::count(config_keys(), synonym) == 0);
  }
}

TEST_CASE("a key that was renamed is refused with its new name, in a file and in an override") {
  int renamed = 0;
  for (const Key& key : keys_of<TrainConfig>()) {
    if (key.rule.formerly.empty()) continue;
    const std::string before(key.rule.formerly), why = message(": unknown key (it is now called '", key.path, "')");
    CAPTURE(before);
    CHECK(std::ranges::count(config_keys(), before) == 0);
    CHECK(contains(error_in(kSingle, {before + "=1"}), why));
    const std::size_t dot = before.find('.');
    const std::string line = dot == std::string::npos
                                 ? before + ": 1"
                                 : message(before.substr(0, dot), ": {", before.substr(dot + 1), ": 1}");
    CHECK(contains(error_of_single_with(line), before + why));
    ++renamed;
  }
  CHECK(renamed == 6);
}

TEST_CASE("keys of two names may share a section, and the value's shape tells two keys of one name apart") {
  CHECK(
      error_in(kPathNet, {"evolution.seeds={a: 1}"}).starts_with("--set evolution.seeds={a: 1}: expected an integer"));
  CHECK(
      contains(error_of_single_with("streams: [1]"), "streams: expected 'auto' or an integer in [1, 64], got a list"));
  CHECK(contains(error_of_single_with("streams: {}"), "streams: expected 'auto' or an integer in [1, 64], got a map"));
  CHECK(contains(error_of_single_with("streams:"), "streams: expected 'auto' or an integer in [1, 64], got nothing"));
}

TEST_CASE("a path is no key") {
  CHECK(error_of_single_with("optimizer.lr: 1").starts_with("x.yaml:5:1: optimizer.lr: unknown key"));
  CHECK(error_of_single_with("optimizer: {\"lr.x\": 1}").starts_with("x.yaml:5:13: optimizer.lr.x: unknown key"));
}

TEST_CASE("unknown keys are reported before missing or wrong ones") {
  CHECK(error_in("name: x\nseed: no\ntrian: {epochs: 1}\n") ==
        "x.yaml:3:1: trian: unknown key (did you mean 'train'?)");
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
}

TEST_CASE("for a name in place of a section, the error suggests its key") {
  CHECK(contains(error_of_single_with("optimizer: adam"),
                 "expected a section, got 'adam' (did you mean 'optimizer.name'?)"));
  CHECK(contains(error_of_single_with("eval: 16"), "eval: expected a section, got '16'"));
}

TEST_CASE("a key that is right, but not for this config, is not suggested again") {
  CHECK(error_in(kPathNet, {"optimizer.momentum=0.9"}) == "--set optimizer.momentum=0.9: unknown key");
}
