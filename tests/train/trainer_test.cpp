#include "train/run/trainer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <numeric>
#include <sstream>

#include "core/base/hash.h"
#include "core/text/json.h"
#include "core/text/text_table.h"
#include "runtime/compile/planner.h"
#include "tests/data/files.h"
#include "tests/train/quiet_training.h"
#include "tests/train/single_job.h"
#include "train/checkpoint/checkpoint.h"
#include "train/export/weights.h"
#include "train/inspect/bench/bench.h"
#include "train/inspect/bench/profiling.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// LeNet on 160 images of four classes: some milliseconds per step.
TrainConfig tiny(const TemporaryFolder& folder, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all{"output.root=" + folder.path()};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return parse_train_config(
      "name: tiny\n"
      "device: cpu\n"
      "streams: 2\n"
      "threads: 2\n"
      "model: {name: lenet5}\n"
      "data: {name: synthetic, size: 160, val_size: 40, image_size: 16, channels: 1, classes: 4,\n"
      "       normalize: {mean: [0.5], std: [0.25]}}\n"
      "train: {epochs: 3, batch_size: 32, log_interval: 2}\n"
      "eval: {batch_size: 16}\n"
      "optimizer: {lr: 0.05}\n",
      "tiny.yaml", all);
}

}  // namespace

TEST_CASE("incomplete batches count as much as their images") {
  const TemporaryFolder folder;
  const auto test = [&](const std::string& batch) {
    return train(tiny(folder, {"train.max_steps=3", "eval.batch_size=" + batch})).val;
  };
  const Evaluation whole = test("40"), parts = test("16"), odd = test("39");
  for (const Evaluation& other : {parts, odd}) {
    CHECK(other.samples == 40);
    CHECK(other.top1 == whole.top1);
    CHECK(other.loss == doctest::Approx(whole.loss).epsilon(1e-5));  // f32 sums in another order
  }
}

TEST_CASE("the sign of NaN, which means nothing, is not printed") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(message(unsigned_nan(std::copysign(nan, -1.0))) == "nan");
  CHECK(message(unsigned_nan(nan)) == "nan");
  CHECK(unsigned_nan(-std::numeric_limits<double>::infinity()) < 0);
  CHECK(unsigned_nan(-1.5) == -1.5);
}

TEST_CASE("a memory limit too small for evaluation is reported before training starts") {
  const TemporaryFolder folder;
  const std::vector<std::string> limited{"memory_limit=1", "streams=1", "data.val_size=512", "train.batch_size=4",
                                         "data.size=8"};
  const auto with = [&](const std::string& setting) {
    std::vector<std::string> all = limited;
    all.push_back(setting);
    return tiny(folder, all);
  };
  const std::string error = error_of<OutOfMemory>([&] { train(with("eval.batch_size=512")); });
  CHECK(
      error.starts_with("[eval] the evaluation of 512 images at once does not fit: try a smaller eval.batch_size. "
                        "[memory] the step does not fit into the memory limit of 1.00 MiB: "));
  CHECK(std::filesystem::is_empty(folder.path()));
  const TrainResult small = train(with("eval.batch_size=16"));
  CHECK(small.val.samples == 512);
  TrainConfig unlimited = with("eval.batch_size=16");
  unlimited.session.memory_limit = 0;
  CHECK(train(unlimited).val.loss == small.val.loss);
  // The same words where there is nothing but evaluation.
  CHECK(error_of<OutOfMemory>(
            [&] { evaluate_checkpoint(with("eval.batch_size=512"), small.folder / "model.safetensors"); }) == error);
}

TEST_CASE("checkpoints of averaged weights are evaluated, and used as weights, as training tested them") {
  const TemporaryFolder folder;
  const TrainConfig config = tiny(folder, {"train.ema_decay=0.99", "checkpoint.keep_last=3"});
  const TrainResult result = train(config);
  const auto load = [&](const std::filesystem::path& file) {
    Session session(config.session);
    const auto model = models::make_model("lenet5", session, {.classes = 4, .image_shape = {16, 16, 1}});
    load_weights(file, *model, {16, 16, 1});
    Hash hash;
    for (Parameter* tensor : model->tensors()) {
      const Array array = session.read(*tensor);
      for (const float value : array.as<float>()) hash.add(double{value});
    }
    return hash;
  };
  int checkpoints = 0;
  Evaluation best;
  for (const Json& record : metrics_of(result.folder)) {
    if (record["event"] != "epoch") continue;
    const auto file = result.folder / "checkpoints" / message("step-", record["step"].as_int64(), ".safetensors");
    CAPTURE(file);
    const Evaluation again = evaluate_checkpoint(config, file);
    CHECK(record["val_accuracy"] == again.top1);
    CHECK(record["val_loss"] == again.loss);
    CHECK((load(file) == load(result.folder / "model.safetensors")) == (record["step"] == 15));
    ++checkpoints;
    if (again.top1 <= best.top1) continue;
    best = again;
    CHECK((result.best_step >= record["step"].as_int64()));
  }
  CHECK(checkpoints == 3);
  const Evaluation kept = evaluate_checkpoint(config, RunFolder::checkpoint(result.folder, "best"));
  CHECK((kept.top1 == best.top1 && kept.loss == best.loss));
  CHECK(RunFolder::checkpoint(result.folder, "last") == result.folder / "model.safetensors");
  CHECK(RunFolder::checkpoint(result.folder, "other") == "other");
}

TEST_CASE("records of steps are means since the record before, and those of epochs of whole epochs") {
  const TemporaryFolder folder;
  const TrainResult result = train(tiny(folder));  // three epochs of five steps, two steps a record
  const std::vector<double>& losses = result.losses.steps;
  REQUIRE(losses.size() == 15);
  int steps = 0, epochs = 0;
  for (const Json& record : metrics_of(result.folder)) {
    const bool of_epoch = record["event"] == "epoch";
    (of_epoch ? epochs : steps) += 1;
    const auto end = losses.begin() + record["step"].as_int64();
    const int count = of_epoch ? 5 : 2;
    CHECK(record["loss"].as_double() == doctest::Approx(std::accumulate(end - count, end, 0.0) / count));
  }
  CHECK(steps == 7);
  CHECK(epochs == 3);
}

TEST_CASE("a model that is not finite is not evaluated, and the first bad tensor is named") {
  const TemporaryFolder folder;
  const TrainConfig config = tiny(folder, {"train.max_steps=1"});
  const TrainResult result = train(config);
  const auto error_with = [&](const std::string& name, float value) {
    Session session(config.session);
    const auto model = models::make_model("lenet5", session, {.classes = 4, .image_shape = {16, 16, 1}});
    load_checkpoint(result.folder / "model.safetensors", session, model->tensors());
    for (Parameter* tensor : model->tensors()) {
      Array array = session.read(*tensor);
      if (tensor->name() == name) array.as<float>()[3] = value;
      session.write(*tensor, array);
    }
    const std::string path = folder.path() + "/bad.braid";
    save_checkpoint(path, session, model->tensors());
    const std::string error = error_of<Error>([&] { evaluate_checkpoint(config, path); });
    return error.starts_with(path + ": ") ? error.substr(path.size() + 2) : "no path: " + error;
  };
  const auto expected = [](const std::string& found) {
    return "tensor 'conv2.weight': expected finite elements, found " + found +
           " at index 3: the training that wrote the checkpoint has diverged";
  };
  CHECK(error_with("conv2.weight", std::numeric_limits<float>::quiet_NaN()) == expected("nan"));
  CHECK(error_with("conv2.weight", -std::numeric_limits<float>::infinity()) == expected("-inf"));
  CHECK(error_with("conv2.weight", 3e38f).starts_with("the loss is "));
}

TEST_CASE("training data without a complete batch is an error before anything is written") {
  const TemporaryFolder folder;
  const std::string error = error_of<ConfigError>([&] {
    train(tiny(folder, {"train.batch_size=1000", "train.drop_last=true"}));
  });
  CHECK(contains(error, "train.batch_size = 1000"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a last batch that is too small for the network is an error before training starts") {
  const TemporaryFolder folder;
  const auto error_with = [&](const std::string& setting) {
    return error_of<ConfigError>([&] {
      train(tiny(folder, {"model.name=resnet20", "data.image_size=4", "data.size=9", "train.batch_size=8",
                          "train.epochs=1", setting}));
    });
  };
  CHECK(contains(error_with("seed=1"),
                 "[train] the last batch of an epoch has 1 image: [batch_norm] expected more than"));
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/tiny-1"));
  CHECK(error_with("train.drop_last=true").empty());
  CHECK(error_with("train.max_steps=1").empty());
  CHECK(error_with("data.image_size=8").empty());
}

TEST_CASE("Ctrl-C ends training after the step, with metrics and model saved") {
  const TemporaryFolder folder;
  // While step 3 is running.
  const auto [run, text] = finish(as_run(tiny(folder, {"train.epochs=1000000"})), {}, "  step 2/");
  CHECK(run.interrupted == SIGINT);
  const TrainResult& result = run.jobs.front();
  CHECK(result.interrupted);
  CHECK(result.steps == 3);
  CHECK(contains(text, "\ninterrupted after step 3; the model is saved\n"));
  const TrainResult same = train(tiny(folder, {"train.max_steps=3", "train.epochs=1000000"}));
  CHECK(bytes_of(result.folder / "model.safetensors") == bytes_of(same.folder / "model.safetensors"));
  CHECK(metrics_of(result.folder).back() == Json{{"event", "interrupted"}, {"step", result.steps}});
  CHECK_NOTHROW(evaluate_checkpoint(tiny(folder), result.folder / "model.safetensors"));
}

TEST_CASE("the metrics record the end of training, whatever its cause") {
  const TemporaryFolder folder;
  int runs = 0;
  const auto fails_by = [&](const std::exception_ptr& thrown, const std::string& reason) {
    Trainer trainer(as_run(tiny(folder, {"train.epochs=20"})));
    trainer.show_a_step([&](const scheduler::PlanView&) { std::rethrow_exception(thrown); });
    CHECK_THROWS(finish(trainer));
    const Json record = metrics_of(message(folder.path(), "/tiny-", ++runs)).back();
    CHECK(record["event"] == "failed");
    CHECK(record["step"].as_int64() > 0);
    CHECK(record["message"] == reason);
  };
  fails_by(std::make_exception_ptr(std::runtime_error("the reason")), "the reason");
  fails_by(std::make_exception_ptr(std::bad_alloc()), "out of memory");
}

TEST_CASE("a profile of training steps knows every node at every width, and a session plans with it") {
  const TemporaryFolder folder;
  TrainConfig config = tiny(folder, {"threads=2"});
  std::size_t calls = 0;
  const ProfilingOptions options{.runs = 2, .pairs = 3, .on_pair = [&](PairProgress) { ++calls; }};
  scheduler::Profile profile = profile_nodes(config, options);
  CHECK(profile.clock == "host clock");
  profile_pairs(config, options, profile);
  CHECK(profile.pair_clock == (profile.pairs.empty() ? "" : "host clock"));
  const std::vector<int> all = widths(0, profile.capacity);
  CHECK(profile.measurements.size() % all.size() == 0);
  for (const int width : all) {
    const auto as_wide = [&](const scheduler::Measurement& m) { return m.implementation.width == width; };
    CHECK(std::ranges::count_if(profile.measurements, as_wide) * std::ssize(all) == std::ssize(profile.measurements));
  }
  CHECK(calls <= 3);
  CHECK((profile.capacity == 1 || calls > 0));
  CHECK(profile.pairs.size() <= 2 * calls);

  config.session.profile = folder.path() + "/costs.json";
  scheduler::write_profile(config.session.profile, profile);
  Bench bench(config);
  bench.warm_up();
  const BenchSetting setting = bench.setting();
  CHECK(setting.stats.measured.known > 0);
  CHECK(setting.stats.measured.unknown == 0);
  CHECK(setting.simulated >= setting.lower_bound * (1 - 1e-9));
  CHECK(
      contains(to_text(setting, bench.run(1), bench.run_unread(1), std::vector<OpTimes>()), "costs     measured for "));
}

TEST_CASE("a bench reports predicted and measured times of every op's nodes") {
  const TemporaryFolder folder;
  Bench bench(tiny(folder, {"streams=1"}));
  bench.warm_up();
  const std::vector<OpTimes> ops = bench.op_times();
  std::int64_t nodes = 0;
  double predicted = 0;
  for (const OpTimes& op : ops) {
    CHECK(op.predicted > 0);
    CHECK(op.measured > 0);
    CHECK(op.bytes > 0);
    nodes += op.nodes;
    predicted += op.predicted;
  }
  const BenchSetting setting = bench.setting();
  CHECK(nodes > 0);
  CHECK(nodes <= setting.nodes);                          // views have no times
  CHECK(predicted == doctest::Approx(setting.makespan));  // makespan of the serial plan, whose nodes run one by one
  CHECK(std::ranges::is_sorted(ops, std::greater(), &OpTimes::measured));
  CHECK(std::ranges::count(ops, "cross_entropy", &OpTimes::op) == 1);
  const auto written = parse_json(to_json(setting, bench.run(1), bench.run_unread(1), ops));
  REQUIRE(written["ops"].size() == ops.size());
  CHECK(written["ops"][0] == Json{{"op", ops[0].op},
                                  {"nodes", ops[0].nodes},
                                  {"predicted_us", ops[0].predicted},
                                  {"measured_us", ops[0].measured},
                                  {"bytes", ops[0].bytes}});
}

TEST_CASE("a roofline compares every node of a step with what the device reaches") {
  const TemporaryFolder folder;
  Bench bench(tiny(folder, {"streams=1"}));
  bench.warm_up();
  const Roofline roofline = bench.roofline();
  std::int64_t nodes = 0, timed = 0;
  for (const OpTimes& op : bench.op_times()) timed += op.nodes;
  for (const OpRoofline& op : roofline.ops) {
    CHECK(op.floor > 0);
    CHECK(op.measured > 0);
    CHECK(op.arithmetic <= op.floor);
    nodes += op.nodes;
  }
  CHECK(nodes == timed);
  CHECK(static_cast<std::int64_t>(roofline.nodes.size()) == timed);
  const auto above = [](const OpRoofline& op) { return op.measured - op.floor; };
  CHECK(std::ranges::is_sorted(roofline.ops, std::greater(), above));
  const auto written = parse_json(to_json(bench.setting(), bench.run(1), bench.run_unread(1), roofline));
  CHECK(written["roofline"]["ops"].size() == roofline.ops.size());
  CHECK(written["roofline"]["nodes"][0]["node"] == roofline.nodes[0].node);
}

TEST_CASE("the floor of a node is the longer time of arithmetic and bytes, each at its peak") {
  const Peaks peaks{.flops_per_second = 2e9, .bytes_per_second = {{1e3, 1e9}, {1e4, 4e9}, {1e6, 1e9}}};
  CHECK(peaks.floor({.flops = 2e3, .bytes = 100}) == doctest::Approx(1));
  CHECK(peaks.floor({.flops = 2e3, .bytes = 8e3}) == doctest::Approx(2));    // in a cache
  CHECK(peaks.floor({.flops = 2e3, .bytes = 5e5}) == doctest::Approx(500));  // in memory
  CHECK(peaks.floor({.flops = 2e3, .bytes = 5e6}) == doctest::Approx(5000));
  CHECK(peaks.is_bound_by_arithmetic({.flops = 2e4, .bytes = 8e3}));
  CHECK_FALSE(peaks.is_bound_by_arithmetic({.flops = 2e3, .bytes = 8e3}));
}

TEST_CASE("the text of a bench divides the times that it prints") {
  const BenchTimes times{.steps = 30, .median_seconds = 0.00845, .images_per_second = 16 / 0.00845};
  const std::vector<OpTimes> ops{{"max_pool2d", 2, 28.04, 4580.06}, {"relu", 4, 0.24, 0.31}, {"fill", 1, 0.04, 0.2}};
  const std::string text = to_text({}, times, 0.3, ops);
  CHECK(contains(text, "8.450 ms (median of 30), 1893 images/s"));
  CHECK(contains(text, "10.000 ms (mean of 30) without reading the loss"));
  CHECK_MESSAGE(text.ends_with("  op          nodes  predicted, ms  measured, ms   ratio\n"
                               "  max_pool2d      2         0.0280        4.5801  163.57\n"
                               "  relu            4         0.0002        0.0003    1.50\n"
                               "  fill            1         0.0000        0.0002\n"
                               "  all             7         0.0283        4.5806  161.86\n"),
                text);
}

TEST_CASE("a bench times steps and describes the plan") {
  const TemporaryFolder folder;
  Bench bench(tiny(folder, {"streams=auto"}));
  bench.warm_up();
  const BenchTimes times = bench.run(3);
  CHECK(times.steps == 3);
  CHECK(times.median_seconds > 0);
  CHECK(times.seconds >= times.median_seconds);
  CHECK(times.host_seconds > 0);
  CHECK(times.run_seconds >= times.host_seconds);
  CHECK(times.run_seconds <= times.seconds);
  const double unread = bench.run_unread(3);
  CHECK(unread > 0);
  const BenchSetting setting = bench.setting();
  CHECK(setting.batch_size == 32);
  CHECK(setting.streams >= 1);
  CHECK(setting.stats.arena_bytes > 0);
  CHECK(setting.peak_resident_bytes > setting.stats.arena_bytes);
  CHECK(parse_json(to_json(setting, times, unread, std::vector<OpTimes>()))["steps"] == 3);

  std::istringstream in(
      "run 2\nwalk 2\nrun -1\nrun 2x\nrun 1 unread\nsetting\nrun 1 unread x\nuse 1\nsetting\nuse 2\nops\n");
  std::ostringstream out;
  std::vector<std::unique_ptr<Bench>> benches;
  benches.push_back(std::make_unique<Bench>(tiny(folder, {"streams=auto"})));
  benches.push_back(std::make_unique<Bench>(tiny(folder, {"streams=1", "train.batch_size=16"})));
  serve(benches, in, out);
  std::istringstream lines(out.str());
  std::vector<Json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(parse_json(line));
  REQUIRE(answers.size() == 12);
  CHECK(answers[0]["ready"] == true);
  CHECK(answers[1]["steps"] == 2);
  for (const std::size_t i : {2, 3, 4, 7, 10}) CHECK(answers[i].contains("error"));
  CHECK(answers[5]["seconds"].as_double() > 0);
  CHECK(answers[6]["batch_size"] == 32);
  CHECK(answers[9]["batch_size"] == 16);
  CHECK(answers[11]["ops"].size() > 5);
  CHECK(answers[11]["clock"] == "host clock");
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("tests may be rarer than epochs, and the last epoch is always tested") {
  const TemporaryFolder folder;
  std::vector<std::int64_t> tested;
  for (const auto& record : metrics_of(train(tiny(folder, {"train.epochs=5", "eval.every_n_epochs=2"})).folder)) {
    if (record.contains("val_loss")) tested.push_back(record["epoch"].as_int64());
  }
  CHECK(tested == std::vector<std::int64_t>{2, 4, 5});
}

TEST_CASE("training stops early once tests no longer improve, by accuracy or by loss, and stays stopped") {
  const TemporaryFolder folder;
  for (const std::string metric : {"accuracy", "loss"}) {
    const std::vector<std::string> stuck{"optimizer.lr=1e-30", "train.epochs=9", "train.early_stop=2",
                                         "eval.metric=" + metric};
    const TrainConfig config = tiny(folder, stuck);
    const TrainResult result = train(config);
    CHECK(result.steps == 3 * 5);  // the first test is the best, then two are no better
    CHECK(result.val.samples == 40);
    const auto [again, text] = finish(as_run(config), result.folder);
    CHECK(again.jobs.front().steps == 15);
    CHECK(contains(text, "stopped early: 2 validations in a row not better than the best"));
  }
}

TEST_CASE("on a plateau the rate falls, also in a run that was resumed in between") {
  const TemporaryFolder folder;
  const std::vector<std::string> stuck{"optimizer.lr=1e-30", "train.epochs=4", "schedule.name=plateau",
                                       "schedule.patience=1", "schedule.gamma=0.5"};
  const auto rates = [&](const TrainResult& result) {
    std::vector<double> list;
    for (const auto& record : metrics_of(result.folder)) {
      if (record["event"] == "epoch") list.push_back(record["lr"].as_double());
    }
    return list;
  };
  const std::vector<double> expected{1e-30, 1e-30, 1e-30, 0.5e-30};
  CHECK(rates(train(tiny(folder, stuck))) == expected);

  std::vector<std::string> shorter = stuck;
  shorter[1] = "train.epochs=2";
  const RunResult longer = finish(as_run(tiny(folder, stuck)), train(tiny(folder, shorter)).folder).result;
  CHECK(rates(longer.jobs.front()) == expected);
}

/// The elements of all tensors of the model that a training results in.
std::map<std::string, std::vector<float>> trained_tensors(const TrainConfig& config) {
  std::map<std::string, std::vector<float>> values;
  const SafeTensors file((train(config).folder / "model.safetensors").string());
  for (const auto& [name, entry] : file.entries()) {
    const Array array = file.array(name);
    values[name] = {array.as<float>().begin(), array.as<float>().end()};
  }
  return values;
}

TEST_CASE("groups of parameters have their own rate, and a pattern that matches none is an error") {
  const TemporaryFolder folder;
  const std::vector<std::string> one_step{"train.max_steps=1", "optimizer.momentum=0", "optimizer.weight_decay=0"};
  const auto trained = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), one_step.begin(), one_step.end());
    return trained_tensors(tiny(folder, overrides));
  };
  const auto slow = trained({"optimizer.lr=0.1"}),
             mixed = trained({"optimizer.lr=0.2", "optimizer.groups=[{parameters: [conv1.*, '*.bias'], lr: 0.1}]"}),
             fast = trained({"optimizer.lr=0.2"});
  for (const auto& [name, values] : mixed) {
    CAPTURE(name);
    CHECK(values == (name.starts_with("conv1.") || name.ends_with(".bias") ? slow : fast).at(name));
    CHECK(slow.at(name) != fast.at(name));
  }
  CHECK(trained({"optimizer.lr=0.2", "optimizer.groups=[]"}) == fast);
  const auto error = [&](const std::string& groups) {
    return error_of<ConfigError>([&] { trained({"optimizer.groups=" + groups}); });
  };
  CHECK(error("[{parameters: layer9.*}]")
            .starts_with("[optimizer] groups: no parameter's name matches 'layer9.*'; the names are conv1.weight, "));
  CHECK(
      contains(error("[{parameters: conv1.*}, {parameters: conv1.weight}]"), "no parameter's name matches 'conv1.we"));
  CHECK(contains(error("[{lr: 0.1}]"), "optimizer.groups"));
  CHECK(contains(error("[{parameters: conv1.*, lr: 0}]"), "optimizer.groups"));
}

TEST_CASE("frozen parameters stay as they were, and a pattern that matches none is an error") {
  const TemporaryFolder folder;
  const auto tensors = [&](const std::vector<std::string>& overrides) {
    return trained_tensors(tiny(folder, overrides));
  };
  const auto start = tensors({"optimizer.lr=1e-30", "train.max_steps=1"});  // as good as none
  const auto trained = tensors({"model.freeze=[conv1.*, '*.bias']"});
  for (const auto& [name, values] : trained) {
    CAPTURE(name);
    const bool same =
        std::ranges::equal(values, start.at(name), [](float a, float b) { return std::abs(a - b) < 1e-20f; });
    CHECK(same == (name.starts_with("conv1.") || name.ends_with(".bias")));
  }
  CHECK(error_of<ConfigError>([&] {
          train(tiny(folder, {"model.freeze=[layer9.*]"}));
        }).starts_with("[model] freeze: no parameter's name matches 'layer9.*'; the names are conv1.weight, "));
  CHECK(error_of<ConfigError>([&] { train(tiny(folder, {"model.freeze=['*']"})); }) ==
        "[model] freeze: it leaves no parameter to train");
}
