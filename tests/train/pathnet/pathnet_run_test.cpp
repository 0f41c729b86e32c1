#include <doctest/doctest.h>

#include <csignal>
#include <sstream>

#include "core/text/json.h"
#include "tests/data/files.h"
#include "tests/effort.h"
#include "tests/train/run_files.h"
#include "tests/train/single_job.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/pathnet/report.h"
#include "train/pathnet/run.h"
#include "train/pathnet/winner.h"
#include "train/run/factories.h"
#include "train/run/log/run_folder.h"

using namespace braid;
using namespace braid::testing;
namespace {

/// Four classes of small images that are easily told apart: some milliseconds per generation.
PathNetConfig tiny_pathnet(const TemporaryFolder& folder, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all{"output.root=" + folder.path()};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const ConfigNode tree = parse_config(
      "name: tiny\n"
      "device: cpu\n"
      "model: {name: pathnet_linear, layers: 2, modules: 4, active: 2, units: 6}\n"
      "data: {name: synthetic, size: 80, image_size: 8, channels: 1, classes: 4, workers: 0,\n"
      "       augment: {salt_and_pepper: 0.2}}\n"
      "train: {batch_size: 8}\n"
      "optimizer: {lr: 0.02}\n"
      "evolution: {task_a: [0, 1], task_b: [3, 2], seeds: 2, population: 8, batches: 5, threshold: 0.95,\n"
      "            max_generations: 40}\n",
      "tiny.yaml");
  return read_pathnet_config(tree, all).value();
}

/// Runs until a line of the output contains the text, or to the end.
PathNetResult run(const PathNetConfig& config, const std::string& until = "", const std::filesystem::path& resumed = {},
                  std::string* output = nullptr) {
  SignalAt buffer(until, SIGINT);
  std::ostream out(&buffer);
  Progress progress(out, Progress::Mode::lines);
  PathNetResult result = run_pathnet(config, progress, resumed);
  if (output != nullptr) *output = buffer.str();
  return result;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("a PathNet run learns both tasks for every seed, and its folder records how") {
  const TemporaryFolder folder;
  const PathNetConfig config = tiny_pathnet(folder, {"evolution.frozen_path=always_active"});
  const PathNetResult result = run(config);
  CHECK_FALSE(result.interrupted);
  REQUIRE(result.seeds.size() == 2);
  std::size_t generations = 0;
  for (const SeedRun& seed : result.seeds) {
    REQUIRE(seed.untrained.has_value());
    for (const TaskRun* task : {&seed.a, &seed.b, &seed.control, &*seed.untrained}) {
      CHECK(task->learned);
      CHECK(task->accuracy >= 0.95);
      CHECK(task->generations >= 1);
      CHECK(task->steps == 5 * task->generations);
      CHECK(task->plans >= 1);
      CHECK(task->plans <= task->generations);
      CHECK(task->population.size() == 8);
      generations += static_cast<std::size_t>(task->generations);
    }
  }

  const std::vector<Json> records = metrics_of(result.folder);
  CHECK(records.size() == generations);
  CHECK(records.front()["event"] == "generation");
  CHECK(records.front()["phase"] == "task A");
  CHECK(records.front()["accuracies"].size() == 2);
  CHECK(records.back()["path"] == result.seeds.back().untrained->path.layers);

  const Json report = parse_json(bytes_of(result.folder / RunFolder::kReport));
  CHECK(report["seeds"][0]["b"]["generations"] == result.seeds[0].b.generations);
  const double mean = (result.seeds[0].control.generations + result.seeds[1].control.generations) / 2.0;
  CHECK(report["mean_generations"]["control"] == mean);
  const Json genotypes = parse_json(bytes_of(result.folder / kPathNetGenotypes));
  CHECK(genotypes["seeds"][1]["a"]["path"] == result.seeds[1].a.path.layers);
  CHECK(genotypes["seeds"][1]["untrained"]["population"].size() == 8);
  CHECK(to_yaml(*read_pathnet_config(read_config_file(result.folder / "config.yaml"))) == to_yaml(config));
}

TEST_CASE("task B and its control begin with the same population, task A with another") {
  const TemporaryFolder folder;
  const PathNetResult result = run(tiny_pathnet(folder, {"evolution.max_generations=1", "evolution.threshold=1"}));
  const auto equal_members = [](const TaskRun& x, const TaskRun& y) {
    int equal = 0;
    for (std::size_t i = 0; i < x.population.size(); ++i) equal += x.population[i] == y.population[i] ? 1 : 0;
    return equal;
  };
  for (const SeedRun& seed : result.seeds) {
    CHECK(equal_members(seed.b, seed.control) >= 6);  // out of 8; the only tournament overwrote one in each
    CHECK(equal_members(seed.a, seed.control) <= 1);
  }
}

TEST_CASE("a task that is not learned is reported as such") {
  const TemporaryFolder folder;
  const PathNetConfig config =
      tiny_pathnet(folder, {"evolution.max_generations=2", "optimizer.lr=1e-9", "evolution.seeds=1"});
  const PathNetResult result = run(config);
  CHECK_FALSE(result.seeds[0].a.learned);
  CHECK(result.seeds[0].a.generations == 2);
  const std::string text = table(config, result.seeds);
  CHECK(count(text, ">2") == 3);
  CHECK(contains(text, "counts with the generations it had"));
}

TEST_CASE("Ctrl-C ends a PathNet run after the step and keeps the seeds that were finished") {
  const TemporaryFolder folder;
  std::string output;
  const PathNetResult result = run(tiny_pathnet(folder, {"evolution.seeds=100"}), "seed 1: ", {}, &output);
  CHECK(result.interrupted);
  CHECK(result.seeds.size() == 1);
  CHECK(metrics_of(result.folder).back()["event"] == "interrupted");
  CHECK(parse_json(bytes_of(result.folder / RunFolder::kReport))["seeds"].size() == 1);
  CHECK(contains(output, "interrupted; seeds finished: 1 of 100"));
}

namespace {

/// Leaves out what depends on the clock and on the plans that a process has made before.
Json timeless_report(const PathNetResult& result) {
  Json report = parse_json(bytes_of(result.folder / RunFolder::kReport));
  for (Json& seed : report["seeds"].elements()) {
    for (const char* phase : {"a", "b", "control", "untrained"}) {
      for (const char* key : {"seconds", "plans"}) seed[phase].erase(key);
    }
  }
  return report;
}

}  // namespace

TEST_CASE("an evolution that is interrupted in any phase and resumed equals one that is not, bit by bit") {
  const TemporaryFolder folder;
  const PathNetConfig config =
      tiny_pathnet(folder, {"evolution.frozen_path=always_active", "evolution.max_generations=25",
                            "evolution.threshold=1", "optimizer.lr=0.001", "precision=f16", "train.batch_size=12"});
  const PathNetResult whole = run(config);
  PathNetResult parts;
  int interruptions = 0;
  for (const int seed : {1, 2}) {
    if (kOnce && seed == 1) continue;
    for (const char* phase : {"task A", "task B", "task B from scratch", "task B next to an untrained path"}) {
      parts = run(config, message("seed ", seed, ", ", phase, ": generation ", 10 * seed, ","), parts.folder);
      interruptions += parts.interrupted == SIGINT ? 1 : 0;
    }
  }
  CHECK(interruptions == (kOnce ? 4 : 8));
  parts = run(config, "", parts.folder);
  CHECK(parts.interrupted == 0);
  CHECK(parts.seeds.size() == 2);
  CHECK((metrics_of(parts.folder) == metrics_of(whole.folder)));  // too long to print
  CHECK((timeless_report(parts) == timeless_report(whole)));
  CHECK((bytes_of(parts.folder / kPathNetGenotypes) == bytes_of(whole.folder / kPathNetGenotypes)));

  {  // a checkpoint of another config is refused
    const PathNetConfig other =
        tiny_pathnet(folder, {"evolution.frozen_path=always_active", "evolution.population=10"});
    const std::string error = error_of<DataError>([&] { run(other, "", parts.folder); });
    CHECK(contains(error, "does not fit the config, or is damaged: 'evolution.current.population' has 8 entries"));
  }
  {  // a damaged newest checkpoint is replaced by the one before
    const std::vector<std::int64_t> saved = CheckpointFolder::steps_in(parts.folder / "checkpoints");
    REQUIRE(saved.size() == 2);
    std::filesystem::resize_file(CheckpointFolder::path_of(parts.folder / "checkpoints", saved[0]), 1000);
    CHECK(run(config, "", parts.folder).seeds.size() == 2);
    CHECK((bytes_of(parts.folder / kPathNetGenotypes) == bytes_of(whole.folder / kPathNetGenotypes)));
  }
}

TEST_CASE("a resumed evolution continues with its loss scale") {
  const TemporaryFolder folder;
  const PathNetConfig config =
      tiny_pathnet(folder, {"evolution.seeds=1", "evolution.threshold=1", "optimizer.lr=0.001", "precision=f16"});
  // A checkpoint is made whenever the one before is written, so its metadata say after how many steps it was.
  struct Saved {
    std::int64_t steps, updates;
  };
  const auto newest = [](const std::filesystem::path& run) {
    const std::filesystem::path checkpoints = run / "checkpoints";
    const SafeTensors file(CheckpointFolder::path_of(checkpoints, CheckpointFolder::steps_in(checkpoints).front()));
    const Json state = parse_json(file.metadata().at("evolution"));
    return Saved{state["current"]["steps"].as_int64(), file.array("training.loss_scale.updates").as<std::int32_t>()[0]};
  };
  const PathNetResult first = run(config, "seed 1, task A: generation 10,", {});
  const Saved before = newest(first.folder);
  run(config, "seed 1, task A: generation 20,", first.folder);
  const Saved after = newest(first.folder);
  CHECK(before.updates > 0);
  CHECK(after.steps > before.steps);
  CHECK(after.updates - before.updates == after.steps - before.steps);
}

TEST_CASE("a drawing that cannot be written does not end a PathNet run") {
  const TemporaryFolder folder;
  const std::filesystem::path drawing = folder.path() + "/tiny-1/" + kPathNetDrawing;
  // Makes a folder in the drawing's place at the first line of the run.
  class Obstacle : public std::stringbuf {
   public:
    explicit Obstacle(const std::filesystem::path& path) : path_(path) {}

   private:
    int sync() override { return std::filesystem::create_directory(path_), 0; }
    std::filesystem::path path_;
  } buffer(drawing);
  std::ostream out(&buffer);
  Progress progress(out, Progress::Mode::lines);
  CHECK(run_pathnet(tiny_pathnet(folder, {"evolution.seeds=2"}), progress).seeds.size() == 2);
  CHECK(std::filesystem::is_directory(drawing));
  CHECK(std::filesystem::exists(drawing.parent_path() / RunFolder::kReport));
}

TEST_CASE("training that diverges fails the run, and the metrics say why") {
  const TemporaryFolder folder;
  const std::string error = error_of<Error>([&] { run(tiny_pathnet(folder, {"optimizer.lr=1e30"})); });
  CHECK(contains(error, "training has diverged"));
  const Json last = metrics_of(folder.path() + "/tiny-1").back();
  CHECK(last["event"] == "failed");
  CHECK(last["message"] == error);
}

TEST_CASE("tasks without a complete batch are an error before anything is written") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(run(tiny_pathnet(folder, {"train.batch_size=41"})), ConfigError);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("the drawing shows every module of every seed, and which path uses it") {
  const TemporaryFolder folder;
  const PathNetConfig config = tiny_pathnet(folder);
  SeedRun seed;
  seed.seed = 42;
  const auto task = [](bool learned, int generations, const models::Genotype& path) {
    TaskRun run;
    run.learned = learned;
    run.generations = generations;
    run.path = path;
    return run;
  };
  seed.a = task(true, 7, {{{0, 1}, {2, 2}}});
  seed.b = task(true, 3, {{{1, 3}, {0, 0}}});
  seed.control = task(false, 40, {{{0, 0}, {0, 0}}});
  const std::vector<SeedRun> runs(4, seed);
  const std::string svg = draw_paths(config, runs);
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count(svg, ">seed 42<") == 4);
  CHECK(count(svg, "generations: A 7, B 3, B from scratch more than 40") == 4);
  CHECK(count(svg, "class=\"unused\"/>") == 4 * 3 + 2);  // 8 modules less 5 used, and a sample of two halves
  CHECK(count(svg, "class=\"name on\">A B<") == 4 * 1);
  CHECK(count(svg, "class=\"name on\">A<") == 4 * 2);
  CHECK(count(svg, "class=\"name on\">B<") == 4 * 2);
  CHECK(count(svg, "class=\"path a\"") == 4 * (2 + 2 + 1));  // image to layer 1, to layer 2, to the task
  CHECK(count(svg, "class=\"path b\"") == 4 * (2 + 2 + 1));
  CHECK(count(svg, "classes 0, 1 of synthetic") == 1);
}

TEST_CASE("the network of a winner computes what the net does along its path") {
  for (const auto& [form, shape] :
       {std::pair<std::string, Shape>{"pathnet_linear", {5, 8, 8, 1}}, {"pathnet_conv", {5, 8, 8, 1}}}) {
    CAPTURE(form);
    const TemporaryFolder folder;
    const std::string width =
        form == "pathnet_conv" ? "{name: pathnet_conv, channels: 3" : "{name: pathnet_linear, units: 6";
    const PathNetConfig config = tiny_pathnet(folder, {"model=" + width + ", layers: 3, modules: 4, active: 2}"});
    models::PathNetOptions options = config.net;
    options.image_shape = {8, 8, 1};
    const models::Genotype path{{{2, 0}, {1, 1}, {3, 0}}};
    Array images(DType::f32, shape);
    Generator random(7);
    for (float& pixel : images.as<float>()) pixel = random.normal();
    const auto logits_of = [&](Session& session, Module& net) {
      net.eval();
      Step step = session.step();
      const NoGrad no_grad;
      const Fetched logits = net(Tensor(images)).fetch();
      step.run();
      return logits.array();
    };
    Session session(config.session);
    models::PathNet net(session, options);
    net.add_task("task_a", 2);
    const int task = net.add_task("task_b", 2);
    save_winner(folder.path(), config, path, session, net);
    net.use(path, task);
    const Array expected = logits_of(session, net);

    const std::filesystem::path winner = RunFolder::of_model(folder.path());
    CHECK(winner == std::filesystem::path(folder.path()) / "winner");
    const TrainConfig described = read_train_config(winner / "config.yaml");
    CHECK(described.data.only_classes == config.task_b);
    Session other(described.session);
    const auto model = make_model(described.model, other, 2, Shape{8, 8, 1});
    load_trained(SafeTensors(winner / "model.safetensors"), other, model->tensors());
    const Array logits = logits_of(other, *model);
    REQUIRE(logits.shape() == expected.shape());
    for (std::size_t i = 0; i < logits.as<float>().size(); ++i) {
      CHECK(logits.as<float>()[i] == doctest::Approx(expected.as<float>()[i]).epsilon(1e-5));
    }
  }
}
