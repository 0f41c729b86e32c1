#include "train/config/config.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "scheduler/costs/known_devices.h"
#include "tests/source_dir.h"
#include "tests/train/single_job.h"
#include "train/config/tree.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// A complete config in as few lines as possible; what is wrong comes after it, from line 5 on.
const std::string kMinimal =
    "name: x\n"
    "model: {name: lenet5}\n"
    "data: {name: fashion_mnist}\n"
    "train: {epochs: 1}\n";

/// The error of the minimal config and one more key.
std::string error_with(const std::string& line) { return error_in(kMinimal + line + '\n'); }

std::string error_for(const std::string& model, const std::string& data) {
  return error_in("name: x\nmodel: {name: " + model + "}\ndata: {name: " + data + "}\ntrain: {epochs: 1}");
}

std::string error_of_override(const std::string& assignment) { return error_in(kMinimal, {assignment}); }

}  // namespace

TEST_CASE("the settings of a CUDA device are written as they were read") {
  const TrainConfig config = parse_train_config(
      kMinimal + "deterministic: false\nautotune: true\ncuda_graphs: false\nworkspace_limit: 64\n", "x.yaml");
  CHECK_FALSE(config.session.deterministic);
  CHECK_FALSE(config.session.cuda_graphs);
  CHECK(config.session.workspace_limit == std::size_t{64} << 20);
  const TrainConfig again = parse_train_config(to_yaml(config), "y.yaml");
  CHECK(again.session.autotune);
  CHECK_FALSE(again.session.cuda_graphs);
  CHECK(again.session.workspace_limit == config.session.workspace_limit);
  CHECK(contains(error_with("workspace_limit: -1"), "x.yaml:5:18: workspace_limit: "));
}

TEST_CASE("a memory limit is in MiB, and zero is none that can be kept") {
  const TrainConfig config = parse_train_config(kMinimal + "memory_limit: 640\n", "x.yaml");
  CHECK(config.session.memory_limit == std::int64_t{640} << 20);
  CHECK(parse_train_config(to_yaml(config), "y.yaml").session.memory_limit == config.session.memory_limit);
  CHECK(parse_train_config(kMinimal, "x.yaml").session.memory_limit == 0);
  CHECK(parse_train_config(kMinimal + "memory_limit: none\n", "x.yaml").session.memory_limit == 0);
  for (const std::string value : {"0", "-1", "1.5", "all"}) {
    CAPTURE(value);
    CHECK(contains(error_with("memory_limit: " + value),
                   "x.yaml:5:15: memory_limit: expected 'none' or an integer in [1, 16777216], got "));
  }
}

TEST_CASE("streams may have SMs of their own") {
  const TrainConfig config = parse_train_config(kMinimal + "streams: {partition: [88, 44]}\n", "x.yaml");
  CHECK(config.session.partition == std::vector{88, 44});
  CHECK(config.session.streams == 2);
  CHECK(to_yaml(parse_train_config(to_yaml(config), "y.yaml")) == to_yaml(config));
  CHECK(error_with("streams: {partition: []}") == "x.yaml:5:22: streams.partition: expected 1 to 64 values, got 0");
  CHECK(contains(error_with("streams: {partition: [0]}"), "streams.partition"));
  CHECK(contains(error_with("streams: {parts: [8]}"), "streams.parts: unknown key"));
}

TEST_CASE("a minimal config is enough and the rest has defaults") {
  const TrainConfig config = parse_train_config(kMinimal, "x.yaml");
  CHECK(config.name == "x");
  CHECK(config.model.name == "lenet5");
  CHECK(config.epochs == 1);
  CHECK(config.session.streams == 0);
  CHECK(config.optimizer.name == "sgd");
  CHECK(config.optimizer.lr == 0.1);
  CHECK(config.schedule.name == "constant");
  CHECK(config.dtype == DType::f32);
  CHECK(config.session.tf32 == std::nullopt);
  CHECK(config.session.deterministic);
  CHECK(parse_train_config(kMinimal + "optimizer: {name: adam}", "x").optimizer.lr == 0.001);
}

TEST_CASE("the precision sets the models' dtype, and tf32 is a setting of the session") {
  const auto parsed = [](const std::string& precision) {
    return parse_train_config(kMinimal + "precision: " + precision, "x");
  };
  CHECK(parsed("f32").dtype == DType::f32);
  CHECK(parsed("bf16").dtype == DType::bf16);
  CHECK(parsed("f16").dtype == DType::f16);
  CHECK(parsed("tf32").dtype == DType::f32);
  for (const std::string precision : {"f32", "tf32", "bf16", "f16"}) {
    CHECK(parsed(precision).session.tf32 == (precision == "tf32"));
    CHECK(contains(to_yaml(parsed(precision)), "\nprecision: " + precision + "\n"));
  }
  CHECK(error_with("precision: f64") ==
        "x.yaml:5:12: precision: expected one of auto, f32, tf32, bf16, f16, got 'f64'");
  CHECK(error_with("precision: fp16")
            .starts_with("x.yaml:5:12: precision: expected one of auto, f32, tf32, bf16, f16, got"));
  CHECK(error_with("precision: [bf16]").starts_with("x.yaml:5:12: precision: expected "));
  CHECK(error_with("deterministic: yes").starts_with("x.yaml:5:16: deterministic: expected "));
}

TEST_CASE("f32 is computed in tf32 where the hardware has it, unless the config says f32") {
  const DeviceInfo h200 = scheduler::known_device("h200"), v100 = scheduler::known_device("v100"), cpu;
  const auto in_use = [](const std::string& precision, const DeviceInfo& device) {
    return precision_in_use(parse_train_config(kMinimal + precision, "x"), device);
  };
  for (const std::string precision : {"", "precision: auto", "precision: tf32"}) {
    CHECK(in_use(precision, h200) == "tf32");
    CHECK(in_use(precision, v100) == "f32");
    CHECK(in_use(precision, cpu) == "f32");
  }
  CHECK(in_use("precision: f32", h200) == "f32");
  CHECK(in_use("precision: bf16", h200) == "bf16");
  CHECK(contains(to_yaml(parse_train_config(kMinimal, "x")), "\nprecision: auto\n"));
}

TEST_CASE("unknown keys are errors with a location and a suggestion") {
  CHECK(error_in("name: x\nmodel:\n  name: lenet5\ndata: {name: synthetic}\ntrain:\n  epochs: 1\n  batch_sze: 3\n") ==
        "x.yaml:7:3: train.batch_sze: unknown key (did you mean 'batch_size'?)");
  CHECK(error_with("zebra: 1") == "x.yaml:5:1: zebra: unknown key");
  CHECK(error_with("optimizer: {lr: 1, momentun: 0.9}") ==
        "x.yaml:5:20: optimizer.momentun: unknown key (did you mean 'momentum'?)");
  CHECK(error_with("<<: {seed: 1}") == "x.yaml:5:1: <<: unknown key");
  CHECK(error_with("? seed\n: 1\n? sead\n: 2") == "x.yaml:7:3: sead: unknown key (did you mean 'seed'?)");
}

TEST_CASE("missing keys are named") {
  CHECK(error_in("") == "x.yaml:1:1: name: this key is required");
  CHECK(error_in("# nothing\n") == "x.yaml:1:1: name: this key is required");
  CHECK(error_in("name: x\n") == "x.yaml:1:1: model.name: this key or 'layers' is required");
  CHECK(error_in("name: x\nmodel:\n") == "x.yaml:2:1: model.name: this key or 'layers' is required");
  CHECK(error_in("name: x\nmodel: {name: lenet5}\ndata: {name: synthetic}\ntrain:\n  batch_size: 3\n") ==
        "x.yaml:5:3: train.epochs: this key is required");
}

TEST_CASE("scalars are taken literally") {
  CHECK(error_with("seed: 010") == "x.yaml:5:7: seed: expected an integer from 0 to 2^64 - 1, got '010'");
  for (const auto& [value, found] : {std::pair{"010", "'010'"},
                                     {"0x10", "'0x10'"},
                                     {"1.5", "'1.5'"},
                                     {"99999999999999999999", "'99999999999999999999'"},
                                     {"\"64\"", "the quoted text '64'"},
                                     {"64 images", "'64 images'"},
                                     {"[1]", "a list"}}) {
    CHECK(error_with(message("eval: {batch_size: ", value, "}")) ==
          message("x.yaml:5:20: eval.batch_size: expected an integer in [1, 1000000000], got ", found));
  }
  CHECK(error_with("eval: {batch_size: }") ==
        "x.yaml:5:8: eval.batch_size: expected an integer in [1, 1000000000], got nothing");
  CHECK(error_with("eval: 3") == "x.yaml:5:7: eval: expected a section, got '3'");
  CHECK(error_with("eval: [3]") == "x.yaml:5:7: eval: expected a section, got a list");
  for (const std::string number : {"1e400", "1e-400", ".5", "1.", "+1", "inf", ".inf", "nan", ".nan", "0x1p3", "1e",
                                   "1e+", "1_000", "1,5", "--1", "00.1", "one", "~", "true"}) {
    CAPTURE(number);
    CHECK(contains(error_with("optimizer:\n  lr: " + number), "optimizer.lr: expected a number above 0, got "));
  }
  for (const std::string number : {"1", "0.1", "1e3", "1E-3", "1.5e+2"}) {
    CAPTURE(number);
    CHECK(error_with("optimizer: {lr: " + number + "}").empty());
  }
  for (const std::string flag : {"yes", "on", "True", "1", "\"true\""}) {
    CAPTURE(flag);
    CHECK(
        contains(error_with("optimizer: {nesterov: " + flag + "}"), "optimizer.nesterov: expected true or false, got"));
  }
}

TEST_CASE("values out of range are errors that state the range") {
  CHECK(error_with("optimizer: {lr: 0}") == "x.yaml:5:17: optimizer.lr: expected a number above 0, got '0'");
  CHECK(error_with("optimizer: {momentum: 1}") ==
        "x.yaml:5:23: optimizer.momentum: expected a number in [0, 1), got '1'");
  CHECK(error_with("optimizer: {weight_decay: -1}") ==
        "x.yaml:5:27: optimizer.weight_decay: expected a number of at least 0, got '-1'");
  CHECK(error_with("streams: 0") == "x.yaml:5:10: streams: expected 'auto' or an integer in [1, 64], got '0'");
  CHECK(error_with("threads: every") == "x.yaml:5:10: threads: expected 'all' or an integer in [0, 1024], got 'every'");
  CHECK(error_with("seed: -1") == "x.yaml:5:7: seed: expected an integer from 0 to 2^64 - 1, got '-1'");
  CHECK(error_with("device: gpu") == "x.yaml:5:9: device: expected auto, cpu, cuda or cuda:<index>, got 'gpu'");
  CHECK(error_with("device: cuda:1").empty());
  CHECK(error_for("lenet5", "fashion_mnist, only_classes: [3, 10]") ==
        "x.yaml:3:47: data.only_classes: expected an integer in [0, 9], got '10'");
  CHECK(error_for("lenet5", "fashion_mnist, only_classes: [3, 1, 3]") ==
        "x.yaml:3:43: data.only_classes: expected each class once");
  CHECK(error_for("lenet5", "fashion_mnist, only_classes: [3, 1]").empty());
  CHECK(error_for("lenet5", "fashion_mnist, augment: {salt_and_pepper: 1.5}") ==
        "x.yaml:3:56: data.augment.salt_and_pepper: expected a number in [0, 1], got '1.5'");
  CHECK(error_with("streams: auto\nthreads: all\nintra_op_threads: 2").empty());
  CHECK(parse_train_config(kMinimal + "seed: 18446744073709551615", "x").session.seed == 18446744073709551615u);
}

TEST_CASE("implementations are listed, with a suggestion") {
  CHECK(error_with("optimizer: {name: sdg}") ==
        "x.yaml:5:19: optimizer.name: expected one of sgd, adam, adamw, got 'sdg' (did you mean 'sgd'?)");
  CHECK(error_with("optimizer: {name: adamv}") ==
        "x.yaml:5:19: optimizer.name: expected one of sgd, adam, adamw, got 'adamv' (did you mean 'adam'?)");
  CHECK(contains(error_with("policy: serail"), "(did you mean 'serial'?)"));
  CHECK(contains(error_for("resnet21", "synthetic"), "x.yaml:2:15: model.name: expected one of "));
}

TEST_CASE("keys that have no meaning for the selected name are errors") {
  CHECK(error_for("lenet5, zero_init_residual: true", "synthetic") ==
        "x.yaml:2:23: model.zero_init_residual: has no meaning for the model 'lenet5'");
  CHECK(error_for("resnet20, stem: image", "synthetic") ==
        "x.yaml:2:25: model.stem: has no meaning for the model 'resnet20'");
  CHECK(error_with("optimizer: {name: adam, momentum: 0.9}") ==
        "x.yaml:5:25: optimizer.momentum: has no meaning for the optimizer 'adam'");
  CHECK(error_with("optimizer: {beta1: 0.9}") ==
        "x.yaml:5:13: optimizer.beta1: has no meaning for the optimizer 'sgd'");
  CHECK(error_with("optimizer: {nesterov: true, momentum: 0}") ==
        "x.yaml:5:23: optimizer.nesterov: needs a momentum above 0");
  CHECK(error_with("schedule: {gamma: 0.5}") ==
        "x.yaml:5:12: schedule.gamma: has no meaning for the schedule 'constant'");
  CHECK(error_with("schedule: {name: one_cycle, warmup_epochs: 1}") ==
        "x.yaml:5:29: schedule.warmup_epochs: has no meaning for the schedule 'one_cycle'");
  CHECK(error_with("schedule: {name: step}") ==
        "x.yaml:5:18: schedule.name: a 'step' schedule needs either milestones or step_epochs");
  CHECK(error_with("schedule: {name: step, milestones: [2, 1]}") ==
        "x.yaml:5:36: schedule.milestones: expected ascending epochs");
  CHECK(error_for("lenet5", "fashion_mnist, size: 3") ==
        "x.yaml:3:29: data.size: has no meaning for the dataset 'fashion_mnist'");
}

TEST_CASE("normalisation must fit the channels") {
  CHECK(error_in("name: x\nmodel: {name: lenet5}\ndata:\n  name: fashion_mnist\n  normalize: {mean: [0, 0, 0]}\n"
                 "train: {epochs: 1}\n") ==
        "x.yaml:5:21: data.normalize.mean: expected one value per channel (1), got 3");
  CHECK(error_in("name: x\nmodel: {name: lenet5}\ndata:\n  name: synthetic\n  normalize: {std: [1, 0, 1]}\n"
                 "train: {epochs: 1}\n") == "x.yaml:5:24: data.normalize.std: expected a number above 0, got '0'");
}

TEST_CASE("pairs are for the siamese network, masks for the U-Net, and no classes for the DCGAN") {
  CHECK(error_for("siamese", "synthetic, pairs: true").empty());
  CHECK(contains(error_for("siamese", "synthetic"),
                 "data.pairs: the model 'siamese' compares pairs of images: expected true, got false"));
  CHECK(error_for("unet", "shapes, augment: {flip: true, crop_padding: 2, random_erasing: 0.1}").empty());
  CHECK(error_for("unet", "image_masks, root: x, classes: 3, image_size: 64").empty());
  CHECK(contains(error_for("unet", "synthetic"),
                 "data.name: the model 'unet' learns a label for each pixel: expected image_masks or shapes"));
  CHECK(contains(error_for("unet", "shapes, classes: 6"), "expected an integer in [1, 5], got '6'"));
  CHECK(contains(error_for("unet", "shapes, classes: 1"), "data.classes: expected at least two classes of pixels"));
  CHECK(contains(error_for("unet", "shapes, only_classes: [1]"), "data.only_classes: has no meaning for masks"));
  CHECK(contains(error_for("unet", "shapes, pairs: true"), "data.pairs: has no meaning for masks"));
  CHECK(contains(error_for("unet", "image_masks, root: x, crop_pct: 1"), "data.crop_pct: "));
  CHECK(error_for("dcgan", "synthetic").empty());
  CHECK(contains(error_for("dcgan", "synthetic, pairs: true"), "data.pairs: has no meaning for a network that makes"));
  CHECK(error_for("siamese", "synthetic, pairs: true, augment: {flip: true, hue: 0.1, mixup: 0.1}").empty());
  for (const std::string key : {"random_resized_crop: true", "crop_padding: 2", "cutmix: 1"}) {
    CHECK(contains(error_for("siamese", "synthetic, pairs: true, augment: {" + key + "}"),
                   "data.augment: pairs of images can be flipped and changed in colour, but not cropped"));
  }
  CHECK(contains(error_for("unet", "shapes, augment: {hue: 0.1}"), "data.augment.hue: images with masks"));
  CHECK(contains(error_for("dcgan", "synthetic, augment: {mixup: 0.2}"),
                 "data.augment: the model 'dcgan' knows no classes whose images could be mixed"));
  for (const std::string key : {"random_resized_crop: true", "mixup: 0.2", "cutmix: 1", "brightness: 0.1"}) {
    CHECK(contains(error_for("unet", "shapes, augment: {" + key + "}"),
                   "images with masks can be cropped, flipped and "));
  }
}

TEST_CASE("each dataset has the keys that it needs") {
  CHECK(error_for("lenet5", "mnist, root: x").empty());
  CHECK(contains(error_for("lenet5", "mnist"), "data.root: expected the folder of the files, got nothing"));
  CHECK(error_for("lenet5", "cifar100, root: x, only_classes: [99], normalize: {mean: [0, 0, 0]}").empty());
  CHECK(
      contains(error_for("lenet5", "cifar10, root: x, only_classes: [10]"), "expected an integer in [0, 9], got '10'"));
  CHECK(contains(error_for("lenet5", "cifar10, root: x, image_size: 64"), "has no meaning for the dataset 'cifar10'"));
  CHECK(error_for("lenet5", "csv, file: x, only_classes: [500]").empty());
  CHECK(error_for("lenet5", "synthetic, pairs: true").empty());
  CHECK(contains(error_for("lenet5", "shapes"),
                 "data.name: each pixel of 'shapes' has a label, which is for the model 'unet'"));
  CHECK(contains(error_for("lenet5", "csv"), "data.file: expected the list of images, got nothing"));
  CHECK(contains(error_for("lenet5", "image_folder, root: x, channels: 4"), "data.channels: expected 1 or 3"));
  CHECK(contains(error_for("lenet5", "image_folder, root: x, channels: 1, normalize: {mean: [0, 0, 0]}"),
                 "expected one value per channel (1), got 3"));
  CHECK(contains(error_for("lenet5", "image_folder, root: x, val_share: 1"), "expected a number in (0, 1), got '1'"));
  CHECK(contains(error_for("lenet5", "synthetic, augment: {scale: [0.5, 0.1]}"), "expected the smaller number first"));
  CHECK(contains(error_for("lenet5", "synthetic, augment: {ratio: [1]}"), "expected 2 to 2 values, got 1"));
  CHECK(contains(error_for("lenet5", "synthetic, normalize: {compute: true, std: [1, 1, 1]}"),
                 "data.normalize.compute: has no meaning together with given mean and std"));
  CHECK(contains(error_for("lenet5", "image_folder, root: x, val_split: 0.1"), "(did you mean 'val_share'?)"));
  CHECK(contains(error_for("lenet5", "synthetic, augment: {reprob: 0.1}"), "(did you mean 'random_erasing'?)"));
}

TEST_CASE("names become folders and must be fit for that") {
  for (const std::string name : {"a/b", "..", ".", "-x", "a b", "\"\"", "ü", "'a\\b'"}) {
    CAPTURE(name);
    CHECK(contains(error_of_override("name=" + name), "names the run's folder"));
  }
  CHECK(error_of_override("name=resnet-20_v1.5").empty());
  CHECK(error_of_override("name=" + std::string(100, 'x')).empty());
  CHECK(error_with("").empty());
  CHECK(error_in("name: " + std::string(300, 'x') + kMinimal.substr(7)) ==
        "x.yaml:1:7: name: expected at most 100 letters, digits, '_', '-' and '.', beginning with a letter, digit or "
        "'_', got '" +
            std::string(40, 'x') + "…'; it names the run's folder");
}

TEST_CASE("~/ is the home folder in every path, and ~ with anything else an error") {
  const char* home = std::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  setenv("HOME", "/home/someone", 1);
  const TrainConfig config =
      parse_train_config(kMinimal, "x.yaml", {"output.root=~/runs", "data.root=~/data/f", "profile=\"~\""});
  CHECK(config.output_root == "/home/someone/runs");
  CHECK(config.data.root == "/home/someone/data/f");
  CHECK(config.session.profile == "/home/someone");
  CHECK(contains(to_yaml(config), "root: \"/home/someone/runs\""));
  CHECK(parse_train_config(kMinimal, "x.yaml", {"output.root=a/~/b"}).output_root == "a/~/b");
  CHECK(parse_train_config(kMinimal, "x.yaml", {"output.root=./~"}).output_root == "./~");
  CHECK(error_of_override("output.root=~other/runs") ==
        "--set output.root=~other/runs: expected a path, got '~other/runs': '~' stands for a home folder as '~/' only");
  unsetenv("HOME");
  CHECK(contains(error_of_override("output.root=~/runs"), "needs the environment variable HOME, which is not set"));
  if (home != nullptr) setenv("HOME", before.c_str(), 1);
}

TEST_CASE("content that YAML merges or cuts off silently is an error") {
  CHECK(error_with("seed: 1\nseed: 2") == "x.yaml:6:1: duplicate key 'seed', given first at x.yaml:5:1");
  CHECK(error_with("eval: {batch_size: 1, batch_size: 2}") ==
        "x.yaml:5:23: duplicate key 'batch_size', given first at x.yaml:5:8");
  CHECK(error_with("---\nseed: 1") == "x.yaml:5:1: a second document starts here; expected one only");
  CHECK(error_with("...\nseed: 1") == "x.yaml:6:1: a second document starts here; expected one only");
  CHECK(error_with("output: {root: &r runs}") == "x.yaml:5:16: anchors are not supported");
  CHECK(error_with("seed: !!int 3") == "x.yaml:5:7: tags such as '!!int' are not supported");
  CHECK(error_with("output:\n  root: \"runs\n") == "x.yaml:6:9: this quote is never closed");
  CHECK(error_with("output:\n  root: 'runs\n") == "x.yaml:6:9: this quote is never closed");
  CHECK(error_with("? {a: b}\n: c") == "x.yaml:5:3: expected a key, got a list or map");
}

TEST_CASE("syntax errors say where, counted from 1") {
  CHECK(error_with("eval: {name: [1, 2") == "x.yaml:5:14: this bracket is never closed");
  CHECK(error_with("seed: 1\n  x: 2") == "x.yaml:6:4: not valid YAML: illegal map value");
  CHECK(error_with("seed: @1") == "x.yaml:5:7: not valid YAML: unknown token");
  CHECK(error_with("seed: 1\n]") == "x.yaml:6:1: not valid YAML: illegal flow end");
  CHECK(error_with("seed: *s") == "x.yaml:5:7: not valid YAML: the referenced anchor is not defined");
  CHECK(error_with("eval:\n\tbatch_size: 1") == "x.yaml:6:1: indent with spaces, not with tabs");
  CHECK(error_with("seed: 1\x04") == "x.yaml:5:8: a control character is not allowed here");
  CHECK(error_with(std::string("seed: 1\0", 8)) == "x.yaml:5:8: a control character is not allowed here");
  CHECK(error_with("name: caf\xe9") == "x.yaml:5:10: this is not UTF-8 text");
  CHECK(error_in("hello") == "x.yaml:1:1: expected lines such as 'name: value'");
  CHECK(error_in("- a\n- b\n") == "x.yaml:1:1: expected lines such as 'name: value'");
}

TEST_CASE("deep nesting is an error and no crash") {
  for (const std::string open : {"[", "{a: ", "? ", "- "}) {
    std::string text = "name: \n  ";
    for (int i = 0; i < 20000; ++i) text += open;
    const std::string error = error_in(text);
    CAPTURE(open);
    CHECK(contains(error, "x.yaml:2:"));
  }
  CHECK(contains(error_in("name: " + std::string(1000, '[')), "nested deeper than 16 levels"));
}

TEST_CASE("very long values are errors and no crash") {
  const std::string digits(500000, '1');
  CHECK(
      contains(error_with("optimizer: {lr: 0." + digits + "}"), "optimizer.lr: expected a number above 0, got '0.11"));
  CHECK(contains(error_with("seed: " + digits), "seed: expected an integer from 0 to 2^64 - 1, got '111"));
  CHECK(
      contains(error_with("device: cuda:" + digits), "device: expected auto, cpu, cuda or cuda:<index>, got 'cuda:1"));
}

TEST_CASE("overrides replace and add values") {
  const TrainConfig config = parse_train_config(kMinimal, "x.yaml",
                                                {"train.epochs=7", "optimizer.lr=0.5", "data.normalize.mean=[0.25]",
                                                 "streams=2", "train.epochs=8", "output.root=/tmp/a=b c"});
  CHECK(config.epochs == 8);
  CHECK(config.optimizer.lr == 0.5);
  CHECK(config.data.mean == std::vector<double>{0.25});
  CHECK(config.session.streams == 2);
  CHECK(config.output_root == "/tmp/a=b c");
}

TEST_CASE("mistakes in overrides name the override") {
  CHECK(error_of_override("train.lr=1") == "--set train.lr=1: unknown key (did you mean 'optimizer.lr'?)");
  CHECK(error_of_override("train.epoch=1") == "--set train.epoch=1: unknown key (did you mean 'epochs'?)");
  CHECK(error_of_override("optimizer.lr=fast") == "--set optimizer.lr=fast: expected a number above 0, got 'fast'");
  CHECK(error_of_override("train={epochs: 1, x: 2}") == "--set train={epochs: 1, x: 2}: train.x: unknown key");
  CHECK(error_of_override("seed=") == "--set seed=: expected an integer from 0 to 2^64 - 1, got nothing");
  CHECK(error_of_override("seed=[1") == "--set seed=[1: this bracket is never closed");
  std::string deep = "a";
  for (int i = 0; i < 30000; ++i) deep += ".a";
  const std::string too_deep = error_of_override(deep + "=1");
  CHECK(too_deep.ends_with("…: nested deeper than 16 levels"));
  CHECK(too_deep.size() < 300);
  CHECK(contains(error_of_override("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p=1"), "unknown key"));
  CHECK(contains(error_of_override("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q=1"), "nested deeper than 16 levels"));
  CHECK(error_of_override("seed=@") == "--set seed=@: not valid YAML: unknown token");
  CHECK(error_of_override("name.x=1") ==
        "--set name.x=1: cannot set the key 'x' here, because its parent is a value (x.yaml:1:7)");
  for (const std::string bad : {"", "seed", "=1", ".seed=1", "seed.=1", "a..b=1"}) {
    CAPTURE(bad);
    CHECK(error_of_override(bad) == "--set " + bad + ": expected key.path=value, such as train.epochs=3");
  }
}

TEST_CASE("a resolved config reads as the same config") {
  const std::string adam =
      "name: a\nseed: 7\ndevice: cpu\nstreams: 3\nintra_op_threads: 1\nthreads: 2\npolicy: serial\nprecision: bf16\n"
      "deterministic: false\nprofile: \"a b.json\"\n"
      "model: {name: resnet18, zero_init_residual: true, stem: image}\n"
      "data: {name: synthetic, size: 10, val_size: 5, image_size: 16, channels: 1, classes: 3, workers: 0,\n"
      "       only_classes: [2, 0], prefetch: 2, augment: {crop_padding: 2, flip: true, salt_and_pepper: 0.1}, "
      "normalize: {mean: [0.1], std: [0.3]}}\n"
      "train: {epochs: 3, batch_size: 5, drop_last: true, label_smoothing: 0.1, log_interval: 7, max_steps: 9}\n"
      "eval: {batch_size: 3}\n"
      "optimizer: {name: adamw, lr: 1.0e-4, beta1: 0.8, beta2: 0.99, epsilon: 1e-7, weight_decay: 0.01}\n"
      "schedule: {name: step, milestones: [1, 2.5], gamma: 0.3, warmup_epochs: 0.5}\n"
      "output: {root: \"a \\\"b\\\" \\\\ \\n#: c\"}\n";
  for (const std::string& text : {kMinimal, adam, kMinimal + "schedule: {name: cosine, min_lr: 0.001}",
                                  kMinimal + "schedule: {name: one_cycle, pct_start: 0.25}",
                                  kMinimal + "schedule: {name: step, step_epochs: 2}"}) {
    const std::string resolved = to_yaml(parse_train_config(text, "x"));
    CHECK(to_yaml(parse_train_config(resolved, "resolved")) == resolved);
  }
  const TrainConfig config = parse_train_config(to_yaml(parse_train_config(adam, "x")), "resolved");
  CHECK(config.output_root == "a \"b\" \\ \n#: c");
  CHECK(config.schedule.milestones == std::vector<double>{1, 2.5});
  CHECK(config.optimizer.epsilon == 1e-7);
  CHECK(config.dtype == DType::bf16);
  CHECK_FALSE(config.session.deterministic);
  CHECK(config.session.profile == "a b.json");
  CHECK(config.model.options.stem == "image");
  CHECK(config.data.std == std::vector<double>{0.3});
  CHECK(config.data.only_classes == std::vector<int>{2, 0});
  CHECK(config.data.augment.salt_and_pepper == 0.1);
}

TEST_CASE("a file that cannot be read is an error with the reason") {
  const TemporaryFolder folder;
  const auto error = [](const std::string& path) { return error_of<ConfigError>([&] { read_train_config(path); }); };
  CHECK(error(folder.path() + "/none.yaml") ==
        folder.path() + "/none.yaml: cannot read the config: No such file or directory");
  CHECK(error(folder.path()) == folder.path() + ": cannot read the config: expected a file, this is a folder");
  CHECK(contains(error(folder.write("big.yaml", Bytes(2 << 20, ' '))), "larger than 1048576 bytes"));
}

TEST_CASE("the folder of a run in place of a config is an error that says what to do") {
  const TemporaryFolder folder;
  folder.write("config.yaml", {});
  CHECK(error_of<ConfigError>([&] { read_train_config(folder.path()); }) ==
        folder.path() + ": expected a config file, this is the folder of a run: its config is " + folder.path() +
            "/config.yaml, and 'braid eval " + folder.path() + "' evaluates its model");
}

TEST_CASE("the configs of the repository are valid") {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() + "/configs")) {
    CAPTURE(file.path().string());
    const ConfigNode tree = read_config_file(file.path());
    CHECK_NOTHROW((read_pathnet_config(tree) ? void() : void(read_run_config(tree))));
    ++count;
  }
  CHECK(count >= 3);
}
