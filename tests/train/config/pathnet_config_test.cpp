#include "train/config/pathnet_config.h"

#include <doctest/doctest.h>

#include "tests/train/single_job.h"

using namespace braid;
using namespace braid::testing;

namespace {

const std::string kMinimalPathNet =
    "name: x\n"
    "model: {name: pathnet_linear}\n"
    "data: {name: fashion_mnist}\n"
    "evolution: {task_a: [0, 1], task_b: [6, 1]}\n";

PathNetConfig parse_pathnet(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return read_pathnet_config(parse_config(text, "x.yaml"), overrides).value();
}

std::string error(const std::string& override) { return error_in(kMinimalPathNet, {override}); }

}  // namespace

TEST_CASE("a PathNet config needs its two tasks; the rest is as in the paper, or set by its section") {
  const PathNetConfig config = parse_pathnet(kMinimalPathNet);
  CHECK(config.task_a == std::vector<int>{0, 1});
  CHECK(config.task_b == std::vector<int>{6, 1});
  CHECK(config.net.form == models::PathNetOptions::Form::linear);
  CHECK(config.net.grid == models::PathGrid{.layers = 3, .modules = 10, .active = 3});
  CHECK(config.net.width == 20);
  CHECK(config.population == 64);
  CHECK(config.tournament.order == Tournament::concurrent);
  CHECK(config.tournament.candidates == 2);
  CHECK(config.tournament.batches == 50);
  CHECK(config.batch_size == 16);
  CHECK(config.frozen_path == FrozenPath::selectable);
  CHECK(config.seeds == std::vector<std::uint64_t>{1, 2, 3, 4, 5});
  CHECK(config.session.streams == 1);
  CHECK(config.session.intra_op_threads == 1);
  CHECK(config.tournament.dtype == DType::f32);
  CHECK(parse_pathnet(kMinimalPathNet, {"precision=bf16"}).tournament.dtype == DType::bf16);
  CHECK(contains(to_yaml(parse_pathnet(kMinimalPathNet, {"precision=tf32"})), "\nprecision: tf32\n"));
}

TEST_CASE("a config is one of a PathNet run if and only if it has a section 'evolution'") {
  CHECK_FALSE(read_pathnet_config(parse_config("name: x\nmodel: {name: lenet5}\n", "x.yaml")).has_value());
  const std::string what = error_of<ConfigError>([] { parse_train_config(kMinimalPathNet, "x.yaml"); });
  CHECK(contains(what, "x.yaml:4:1: evolution: makes this the config of a PathNet run"));
}

TEST_CASE("seeds are listed, or counted from the seed of the session") {
  CHECK(parse_pathnet(kMinimalPathNet, {"evolution.seeds=3", "seed=7"}).seeds == std::vector<std::uint64_t>{7, 8, 9});
  CHECK(parse_pathnet(kMinimalPathNet, {"evolution.seeds=[4, 2]"}).seeds == std::vector<std::uint64_t>{4, 2});
  CHECK(contains(error("evolution.seeds=[]"), "expected 1 or more values, got 0"));
  CHECK(contains(error("evolution.seeds=0"), "expected an integer in [1, 1000]"));
  CHECK(contains(error("evolution.seeds=[-1]"), "expected an integer of at least 0, got '-1'"));
  CHECK(contains(error("evolution.seeds=many"), "expected an integer in [1, 1000], got 'many'"));
}

TEST_CASE("modules have units or channels, depending on their form") {
  CHECK(parse_pathnet(kMinimalPathNet, {"model.units=7"}).net.width == 7);
  const PathNetConfig conv = parse_pathnet(kMinimalPathNet, {"model.name=pathnet_conv"});
  CHECK(conv.net.form == models::PathNetOptions::Form::conv);
  CHECK(conv.net.width == 16);
  CHECK(contains(error("model.channels=3"), "has no meaning for the model 'pathnet_linear'"));
  CHECK(contains(error_in(kMinimalPathNet, {"model.name=pathnet_conv", "model.units=3"}),
                 "has no meaning for the model 'pathnet_conv'"));
  CHECK(contains(error("model.name=resnet20"), "expected one of pathnet_linear, pathnet_conv"));
}

TEST_CASE("mistakes in a PathNet config say where and what") {
  CHECK(contains(error("evolution.poulation=3"), "unknown key (did you mean 'population'?)"));
  CHECK(contains(error("evolution.task_a=[0, 10]"), "expected an integer in [0, 9], got '10'"));
  CHECK(contains(error("evolution.task_a=[0]"), "expected 2 or more values, got 1"));
  CHECK(contains(error("evolution.task_b=[1, 1]"), "expected each class once"));
  CHECK(contains(error("evolution.task_b=3"), "expected a list of integers"));
  CHECK(contains(error("evolution.candidates=3"), "expected an even number"));
  CHECK(contains(error("evolution.candidates=66"), "expected an integer in [2, 64]"));
  CHECK(contains(error("evolution.tournament=both"), "expected one of concurrent, sequential, got 'both'"));
  CHECK(contains(error("evolution.frozen_path=active"), "expected one of selectable, always_active"));
  CHECK(contains(error("evolution.threshold=0"), "expected a number in (0, 1]"));
  CHECK(contains(error("data.only_classes=[0, 1]"),
                 "has no meaning together with evolution.task_a and evolution.task_b"));
  CHECK(contains(error("eval.batch_size=3"), "eval: has no meaning in the config of a PathNet run"));
  CHECK(contains(error("train.epochs=3"), "train.epochs=3: unknown key"));
  CHECK(contains(error("optimizer.momentum=0.9"), "unknown key"));
  CHECK(contains(error("evolution={}"), "evolution.task_a: this key is required"));
}
