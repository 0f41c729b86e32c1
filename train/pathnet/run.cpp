#include "train/pathnet/run.h"

#include <chrono>

#include "core/base/exception_text.h"
#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "data/class_subset.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/pathnet/checkpoint.h"
#include "train/pathnet/report.h"
#include "train/pathnet/winner.h"
#include "train/run/factories.h"
#include "train/run/interrupt.h"
#include "train/run/log/run_folder.h"

namespace braid {

namespace {

using models::PathNet;

/// Derives separate seeds for the weights, batches and populations of each task.
std::uint64_t derive(std::uint64_t seed, std::string_view what) { return Hash{}.add(seed).add(what).low; }

/// The part of the config that factories read.
TrainConfig training_config(const PathNetConfig& config) {
  TrainConfig training;
  training.session = config.session;
  training.data = config.data;
  training.batch_size = config.batch_size;
  return training;
}

/// The state that all seeds share.
struct Experiment {
  const PathNetConfig& config;
  std::shared_ptr<const ImageDataset> task_a, task_b;
  RunFolder& folder;
  Progress& progress;
  const InterruptGuard& interrupt;
  CheckpointFolder checkpoints;
  PathNetState state = {};
  std::size_t evolutions = 0;             // that have begun
  std::optional<SafeTensors> saved = {};  // the tensors for `state.current`, until it continues
};

constexpr const char* kEvolution = "evolution";  // in the metadata of a checkpoint
constexpr const char* kTaskB = "task B";         // the phase whose path is the winner

/// Finds the newest checkpoint that is whole.
void find_checkpoint(Experiment& experiment) {
  const auto read = [&](SafeTensors&& file) {
    const auto text = file.metadata().find(kEvolution);
    file.expect(text != file.metadata().end(), "is not the checkpoint of a PathNet run");
    try {
      experiment.state = read_pathnet_state(text->second, experiment.config);
    } catch (const JsonError& error) {
      throw DataError(message(file.path(), ": does not fit the config, or is damaged: ", error.what()));
    }
    experiment.saved = std::move(file);
  };
  const auto generation =
      CheckpointFolder::restore_newest(experiment.folder.checkpoints_path(), std::numeric_limits<std::int64_t>::max(),
                                       read, [&](const std::string& problem) { experiment.progress.warn(problem); });
  if (generation) experiment.progress.print(message("resumed after generation ", *generation));
  experiment.folder.go_on(to_yaml(experiment.config), experiment.state.metrics_bytes);
}

/// A net in which paths evolve, one task after the other.
class Evolver {
 public:
  Evolver(Experiment& experiment, Session& session, std::uint64_t seed)
      : experiment_(experiment), session_(session), seed_(seed), net_(session, net_options(experiment)) {}

  /// Freezes a path, and keeps it active if the config says so.
  void fix(const models::Genotype& path) {
    net_.freeze(path);
    if (experiment_.config.frozen_path == FrozenPath::always_active) net_.keep_active(path);
  }
  /// Reinitialises all weights that are not frozen.
  void renew() { net_.reinitialise(); }
  /// Evolves paths on task "a" or "b"; `phase` names the evolution in the metrics. False if it was interrupted. What
  /// was learned before the run was resumed is not learned again.
  bool learn(std::string_view task, const std::string& phase, TaskRun& run);

 private:
  static models::PathNetOptions net_options(const Experiment& experiment) {
    models::PathNetOptions options = experiment.config.net;
    options.image_shape = experiment.task_a->image_shape();
    return options;
  }
  /// Saves the path of task B that just ended, unless an earlier seed has a better one.
  void keep_winner(const TaskRun& run);
  void save(const TaskRun& run, const Evolution& evolution, const CandidateTrainer& trainer);
  void note_generation(const std::string& phase, const Evolution& evolution, std::span<const double> fitness);

  Experiment& experiment_;
  Session& session_;
  std::uint64_t seed_;
  PathNet net_;
};

bool Evolver::learn(std::string_view task, const std::string& phase, TaskRun& run) {
  const PathNetConfig& config = experiment_.config;
  PathNetState& state = experiment_.state;
  const auto start = std::chrono::steady_clock::now();
  const SessionStats stats = session_.stats();
  const auto& dataset = task == "a" ? experiment_.task_a : experiment_.task_b;
  const int number = net_.add_task(message("task_", task), dataset->classes());
  if (experiment_.evolutions++ < state.finished.size()) {
    run = state.finished[experiment_.evolutions - 1];
    return true;
  }
  LoaderOptions loader = loader_options(training_config(config), Split::train);
  loader.seed = derive(seed_, message("batches of ", task));
  CandidateTrainer trainer(session_, net_, number, dataset, loader, config.tournament);
  Evolution evolution({.grid = config.net.grid,
                       .population = config.population,
                       .candidates = config.tournament.candidates,
                       .seed = derive(seed_, message("paths of ", task))});
  if (const auto file = std::exchange(experiment_.saved, std::nullopt)) {
    run = state.current;
    evolution.restore(state.evolution);
    trainer.seek(state.batches);
    load_tensors(*file, session_, net_.tensors());
    load_tensors(*file, session_, trainer.states(), kTrainingPrefix);
  }
  const TaskRun before = run;
  const auto stop = [this] { return experiment_.interrupt.requested(); };
  while (!run.learned && run.generations < config.max_generations) {
    std::vector<double> fitness;
    evolution.step([&](std::span<const models::Genotype> candidates) {
      fitness = trainer.train(candidates, stop);
      return fitness;
    });
    if (fitness.empty()) return false;
    run.generations = evolution.last().generation;
    run.learned = evolution.last().fitness >= config.threshold;
    run.accuracy = evolution.best().fitness;
    run.path = evolution.best().genotype;
    run.population.assign(evolution.population().begin(), evolution.population().end());
    run.steps = before.steps + session_.stats().steps - stats.steps;
    run.plans = before.plans + session_.stats().plans - stats.plans;
    run.seconds = before.seconds + std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    note_generation(phase, evolution, fitness);
    if (experiment_.interrupt.take_save_request() || !experiment_.checkpoints.busy()) save(run, evolution, trainer);
  }
  if (phase == kTaskB) keep_winner(run);
  state.finished.push_back(run);
  return true;
}

void Evolver::keep_winner(const TaskRun& run) {
  const PathNetConfig& config = experiment_.config;
  const std::vector<TaskRun>& finished = experiment_.state.finished;
  for (std::size_t b = 1; b < finished.size(); b += evolutions_of_seed(config)) {
    if (finished[b].accuracy >= run.accuracy) return;
  }
  const bool always_active = config.frozen_path == FrozenPath::always_active;
  const models::Genotype path = always_active ? join(run.path, finished.back().path) : run.path;
  save_winner(experiment_.folder.path(), config, path, session_, net_);
}

void Evolver::save(const TaskRun& run, const Evolution& evolution, const CandidateTrainer& trainer) {
  PathNetState& state = experiment_.state;
  state.current = run;
  state.evolution = evolution.state();
  state.batches = trainer.positions();
  state.metrics_bytes = experiment_.folder.metrics_bytes();
  Checkpoint checkpoint{.step = state.generations(),
                        .tensors = copies_for_training(session_, net_.tensors(), trainer.states()),
                        .metadata = layout_metadata()};
  checkpoint.metadata[kEvolution] = to_json(state);
  experiment_.checkpoints.save(std::move(checkpoint));
}

void Evolver::note_generation(const std::string& phase, const Evolution& evolution, std::span<const double> fitness) {
  const Evolution::Winner& winner = evolution.last();
  experiment_.folder.append_metrics(Json{{"event", "generation"},
                                         {"seed", seed_},
                                         {"phase", phase},
                                         {"generation", winner.generation},
                                         {"accuracies", fitness},
                                         {"path", winner.genotype.layers}});
  const std::string accuracies = message(", accuracy ", fixed(100 * winner.fitness, 2), " % (best ",
                                         fixed(100 * evolution.best().fitness, 2), " %)");
  experiment_.progress.update(0, message("seed ", seed_, ", ", phase, ": generation ", winner.generation, accuracies),
                              winner.generation % 10 == 0);
}

/// False if it was interrupted.
bool run_seed(Experiment& experiment, SeedRun& run) {
  SessionOptions options = experiment.config.session;
  options.seed = run.seed;
  Session session(options);
  const bool always_active = experiment.config.frozen_path == FrozenPath::always_active;
  RandomState second{.seed = derive(run.seed, "weights of b")};
  {
    Evolver evolver(experiment, session, run.seed);
    if (!evolver.learn("a", "task A", run.a)) return false;
    evolver.fix(run.a.path);
    const Context::RandomScope random(session, second);
    evolver.renew();
    if (!evolver.learn("b", kTaskB, run.b)) return false;
  }
  const Context::RandomScope random(session, second);
  {
    Evolver control(experiment, session, run.seed);
    if (!control.learn("b", "task B from scratch", run.control)) return false;
  }
  if (!always_active) return true;
  Evolver untrained(experiment, session, run.seed);
  untrained.fix(run.a.path);
  return untrained.learn("b", "task B next to an untrained path", run.untrained.emplace());
}

std::shared_ptr<const ImageDataset> make_task(const std::shared_ptr<const ImageDataset>& dataset,
                                              const std::vector<int>& classes, std::int64_t batch_size) {
  auto task = std::make_shared<ClassSubset>(dataset, classes);
  BRAID_CHECK(task->size() >= batch_size, ConfigError, "[pathnet] ", task->name(), " has ", task->size(),
              " samples, too few for train.batch_size = ", batch_size);
  return task;
}

void run_seeds(Experiment& experiment, PathNetResult& result) {
  const PathNetConfig& config = experiment.config;
  for (const std::uint64_t seed : config.seeds) {
    SeedRun run;
    run.seed = seed;
    const bool complete = run_seed(experiment, run);
    experiment.progress.finish(0);
    if (!complete) {
      result.interrupted = experiment.interrupt.signal();
      return;
    }
    result.seeds.push_back(std::move(run));
    experiment.progress.print(summary(result.seeds.back()));
    replace_file(result.folder / RunFolder::kReport, report_json(config, result.seeds));
    replace_file(result.folder / kPathNetGenotypes, genotypes_json(config, result.seeds));
    try {
      replace_file(result.folder / kPathNetDrawing, draw_paths(config, result.seeds));
    } catch (const std::exception&) {
      experiment.progress.warn(exception_text(std::current_exception()) + "; the run continues");
    }
  }
}

}  // namespace

PathNetResult run_pathnet(const PathNetConfig& config, Progress& progress, const std::filesystem::path& resumed) {
  const InterruptGuard interrupt;
  const auto dataset = DatasetPool().get(training_config(config), Split::train);
  const auto task_a = make_task(dataset, config.task_a, config.batch_size);
  const auto task_b = make_task(dataset, config.task_b, config.batch_size);
  const auto opened = resumed.empty() ? std::make_unique<RunFolder>(config.output_root, config.name, to_yaml(config))
                                      : RunFolder::reopen(resumed);
  RunFolder& folder = *opened;
  PathNetResult result{.seeds = {}, .folder = folder.path()};
  Experiment experiment{
      config, task_a, task_b, folder, progress, interrupt, {folder.checkpoints_path(), {.last = 2, .best = 0}}};
  progress.print(message("PathNet on ", task_a->name(), " and then ", task_b->name(), ", until a path has ",
                         100 * config.threshold, " % of ",
                         plural(config.tournament.batches * config.batch_size, "training image"), " right; results in ",
                         folder.path().string()));
  if (!resumed.empty()) find_checkpoint(experiment);
  try {
    run_seeds(experiment, result);
    experiment.checkpoints.finish();
    if (result.interrupted != 0) folder.append_metrics(Json{{"event", "interrupted"}});
  } catch (const std::exception&) {
    folder.append_last_words(Json{{"event", "failed"}, {"message", exception_text(std::current_exception())}});
    throw;
  }
  if (result.interrupted != 0) {
    progress.print(message("interrupted; seeds finished: ", result.seeds.size(), " of ", config.seeds.size()));
  }
  if (!result.seeds.empty()) progress.print(table(config, result.seeds));
  progress.print(message("results are in ", folder.path().string()));
  return result;
}

}  // namespace braid
