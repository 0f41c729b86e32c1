#include "train/inspect/bench/io_bench.h"

#include <chrono>

#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "train/checkpoint/checkpoint.h"
#include "train/inspect/bench/bench.h"

namespace braid {

IoBench::IoBench(const TrainConfig& config)
    : config_(config),
      session_(config.session),
      dataset_(DatasetPool().get(config, Split::train)),
      batch_(first_batch(dataset_, config)),
      loader_(dataset_, training_options(config, *dataset_)),
      learner_(config, session_, *dataset_),
      folder_(config.output_root, config.name + "-bench", ""),
      checkpoints_(folder_.checkpoints_path(), {.last = 2, .best = 0}) {}

IoBench::~IoBench() {
  std::error_code ignored;
  try {
    checkpoints_.finish();
  } catch (...) {
  }
  std::filesystem::remove_all(folder_.path(), ignored);
}

template <class Next, class After>
double IoBench::time(std::int64_t steps, const Next& next, const After& after) {
  const auto start = std::chrono::steady_clock::now();
  std::optional<Fetched> last;  // read once the next step is running, as in training
  for (std::int64_t i = 0; i < steps; ++i) {
    Step step = session_.step();
    Fetched loss = learner_.record(batch_).loss.fetch();
    step.run();
    next(batch_);
    if (last) last->item();
    last = std::move(loss);
    after(i);
  }
  last->item();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void IoBench::load(Batch& batch) {
  while (!loader_.next(batch)) loader_.start_epoch(++epoch_);
}

void IoBench::log() {
  folder_.append_metrics(Json{{"event", "step"},
                              {"step", learner_.steps()},
                              {"epoch", 1},
                              {"lr", learner_.optimizer().lr()},
                              {"loss", 2.25},
                              {"accuracy", 0.125},
                              {"images_per_second", 1234.5}});
}

void IoBench::save() {
  Checkpoint state{.step = learner_.steps(),
                   .tensors = copies_for_training(session_, learner_.model().tensors(), learner_.training_states()),
                   .metadata = layout_metadata()};
  Checkpoint model = state;
  model.tensors.resize(learner_.model().tensors().size());
  checkpoints_.save(std::move(state), folder_.model_path(), std::move(model));
}

IoBench::Times IoBench::run(std::int64_t rounds, std::int64_t steps) {
  const auto same = [](Batch&) {};
  const auto nothing = [](std::int64_t) {};
  do {
    time(1, same, nothing);
  } while (session_.choosing());
  std::vector<double> alone, loading, logging, saving;
  const auto relative = [&](const auto& next, const auto& after) { return time(steps, next, after) / alone.back(); };
  for (std::int64_t round = 0; round < rounds; ++round) {
    alone.push_back(time(steps, same, nothing));
    load(batch_);  // the first is there, as in the middle of an epoch
    loading.push_back(relative([this](Batch& batch) { load(batch); }, nothing));
    logging.push_back(relative(same, [this](std::int64_t) { log(); }));
    saving.push_back(relative(same, [this](std::int64_t i) {
      if (i == 0) save();
    }));
    checkpoints_.finish();
  }
  const std::vector<std::int64_t> saved = CheckpointFolder::steps_in(folder_.checkpoints_path());
  return {.rounds = rounds,
          .steps = steps,
          .step_seconds = median(alone) / static_cast<double>(steps),
          .loading = quartiles(loading),
          .logging = quartiles(logging),
          .saving = quartiles(saving),
          .checkpoint_bytes =
              std::filesystem::file_size(CheckpointFolder::path_of(folder_.checkpoints_path(), saved.front()))};
}

std::string to_text(const IoBench::Times& times, const TrainConfig& config) {
  const auto row = [](const std::string& what, const Quartiles& ratio) {
    return std::vector<std::string>{what, fixed(ratio.median, 3) + "x",
                                    message(fixed(ratio.lower, 3), " to ", fixed(ratio.upper, 3))};
  };
  return message(
      config.model.title(), ", batch ", config.batch_size, ": ", fixed(times.step_seconds * 1e3, 2),
      " ms per step on a batch in memory; the same with\n",
      text_table(
          {row(message("batches of ", config.data.name, " by ", plural(config.data.workers, "worker")), times.loading),
           row("every step logged", times.logging),
           row(message("a checkpoint of ", mebibytes(times.checkpoint_bytes), " MiB every ",
                       plural(times.steps, "step")),
               times.saving)},
          "lrr", "  "),
      "medians and quartiles of ", plural(times.rounds, "round"), "\n");
}

std::string to_json(const IoBench::Times& times, const TrainConfig& config) {
  const auto list = [](const Quartiles& ratio) { return Json::array({ratio.lower, ratio.median, ratio.upper}); };
  return Json{{"model", config.model.title()},  {"batch_size", config.batch_size},
              {"workers", config.data.workers}, {"rounds", times.rounds},
              {"steps", times.steps},           {"step_seconds", times.step_seconds},
              {"loading", list(times.loading)}, {"logging", list(times.logging)},
              {"saving", list(times.saving)},   {"checkpoint_bytes", times.checkpoint_bytes}}
      .dump_sorted();
}

}  // namespace braid
