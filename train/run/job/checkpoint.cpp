// What a job saves and how it continues from it. A checkpoint at the end of an epoch is made before the evaluation,
// which runs again when training continues there.

#include "train/checkpoint/checkpoint.h"

#include "core/text/json.h"
#include "core/text/text.h"
#include "runtime/agreement.h"
#include "train/checkpoint/training_images.h"
#include "train/export/weights.h"
#include "train/run/job/job.h"

namespace braid {

namespace {

constexpr const char *kState = "training", *kLosses = "losses";
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

/// Calls `add` with each step and value of a list of pairs.
template <class Add>
void read_pairs(const JsonPart& list, const Add& add) {
  for (const JsonPart& pair : list.list()) {
    pair.check_size(2);
    add(pair.list()[0].integer(0, kMost), pair.list()[1].number(std::numeric_limits<double>::lowest()));
  }
}

/// Which gradients shards keep, and with them a checkpoint.
std::string kept_gradients(const ParallelOptions& parallel) {
  if (!parallel.keeps_gradients()) return "none";
  return message("compression ", name_of(parallel.compression.method), ", staleness ", parallel.staleness, ", ",
                 plural(parallel.shard_count(), "shard"));
}

}  // namespace

void Job::open(const JobOutput& output) {
  output_.emplace(output);
  const auto& [interval, last, best] = config_.checkpoint;
  if (rank(session_.parallel()) == 0) {
    checkpoints_.emplace(output_->folder.checkpoints_path(), CheckpointFolder::Retention{.last = last, .best = best});
  }
  const std::uint64_t metrics_bytes = begin(kMost);
  require_same_text(session_.parallel(), message("step ", result_.steps), "the newest checkpoint");
  compare_ranks();
  output_->folder.go_on(to_yaml(config_), metrics_bytes);
}

std::uint64_t Job::begin(std::int64_t most_steps) {
  std::uint64_t metrics_bytes = 0;
  const auto step = CheckpointFolder::restore_newest(
      output_->folder.checkpoints_path(), most_steps, [&](const SafeTensors& file) { metrics_bytes = restore(file); },
      [&](const std::string& problem) { output_->progress.warn(problem); });
  if (step) {
    print(message("resumed after step ", *step, " of ", total_steps_));
    return metrics_bytes;
  }
  if (!config_.model.weights.empty()) {
    print(load_weights(config_.model.weights, learner_.model(), train_set_->image_shape(), train_set_->class_names()));
  }
  if (session_.parallel().elastic_beta > 0) learner_.average()->start();
  return 0;
}

std::vector<NamedArray> Job::checkpoint_tensors() {
  return copies_for_training(session_, learner_.model().tensors(), learner_.training_states());
}

Json Job::Sums::json() const { return {{"images", images}, {"loss_sum", loss_sum}, {"hits", hits}}; }

Job::Sums Job::Sums::read(const JsonPart& saved) {
  return {.images = saved["images"].integer(0, std::numeric_limits<std::int64_t>::max()),
          .loss_sum = saved["loss_sum"].number(0),
          .hits = saved["hits"].number(0)};
}

Checkpoint Job::checkpoint() {
  Checkpoint checkpoint{.step = result_.steps,
                        .tensors = checkpoint_tensors(),
                        .metadata = model_metadata(config_.data, *train_set_, *val_set_)};
  const std::vector<double>& losses = result_.losses.steps;
  checkpoint.tensors.push_back({message(kTrainingPrefix, kLosses), Array::from(losses, {std::ssize(losses)})});
  const std::map<std::int64_t, double>& scores = checkpoints_->scores();
  checkpoint.metadata[kState] =
      Json{{"step", result_.steps},
           {"updates", learner_.optimizer().updates()},
           {"accumulated", learner_.optimizer().accumulated() ? 1 : 0},
           {"kept_gradients", kept_gradients(session_.parallel())},
           {"batches", train_loader_.batches()},
           {"in_epoch", in_epoch_ ? 1 : 0},
           {"epoch", epoch_number_},
           {"of_epoch", epoch_.json()},
           {"of_interval", interval_.json()},
           {"seconds", epoch_seconds()},
           {"best_score", best_score_ ? Json(*best_score_) : nullptr},
           {"worse_validations", worse_validations_},
           {"plateau", Json::array({schedule_.plateau().worse, schedule_.plateau().reductions})},
           {"val_losses", result_.losses.val},
           {"scores", std::vector(scores.begin(), scores.end())},
           {"metrics_bytes", output_->folder.metrics_bytes()}}
          .dump_sorted();
  return checkpoint;
}

std::uint64_t Job::restore(const SafeTensors& file) {
  const auto text = file.metadata().find(kState);
  file.expect(text != file.metadata().end(), "holds a model, but no state of its training");
  check_classes(file, *train_set_);
  const std::string problem = held_out_otherwise(file, config_.data, *val_set_);
  BRAID_CHECK(problem.empty(), DataError, problem, ": train a new run");
  try {
    const Json parsed = parse_json(text->second);
    return restore({parsed, kState}, file);
  } catch (const JsonError& error) {
    throw DataError(message(file.path(), ": damaged state of the training: ", error.what()));
  }
}

std::uint64_t Job::restore(const JsonPart& state, const SafeTensors& file) {
  const std::int64_t step = state["step"].integer(0, kMost);
  file.expect(step <= total_steps_, "the training has done ", plural(step, "step"), ", more than the ", total_steps_,
              " that the config asks for");
  const std::int64_t number = state["epoch"].integer(0, kMost);
  const Sums epoch = Sums::read(state["of_epoch"]), interval = Sums::read(state["of_interval"]);
  const double seconds = state["seconds"].number(0);
  const bool in_epoch = state["in_epoch"].integer(0, 1) == 1;
  const std::int64_t batches = train_loader_.batches(), done = step - (number - 1) * batches;
  const bool fits = in_epoch ? done >= 0 && done <= batches : step == number * batches;
  file.expect(fits && state["batches"].integer(0, kMost) == batches, "does not fit epochs of ",
              plural(batches, "batch", "es"), ": continue with the data and the batch size of before");
  const std::string kept = state.json.contains("kept_gradients") ? state["kept_gradients"].text() : "none",
                    own = kept_gradients(session_.parallel());
  file.expect(kept == own, "holds gradients that shards kept by '", kept, "', but the config says '", own,
              "': continue with the keys parallel.compression, staleness and virtual_ranks of before");
  std::map<std::int64_t, double> scores;
  scheduler::LossCurve losses;
  const Array values = file.array(message(kTrainingPrefix, kLosses));
  losses.steps.assign(values.as<double>().begin(), values.as<double>().end());
  read_pairs(state["val_losses"], [&](std::int64_t at, double loss) { losses.val.emplace_back(at, loss); });
  read_pairs(state["scores"], [&](std::int64_t at, double score) { scores[at] = score; });
  const bool accumulated = state["accumulated"].integer(0, 1) == 1;
  const auto updates = static_cast<std::int32_t>(state["updates"].integer(0, kMost));
  const auto metrics_bytes =
      static_cast<std::uint64_t>(state["metrics_bytes"].integer(0, std::numeric_limits<std::int64_t>::max()));
  std::optional<double> best_score;
  if (!state["best_score"].json.is_null())
    best_score = state["best_score"].number(std::numeric_limits<double>::lowest());
  const std::int64_t worse_validations = state["worse_validations"].integer(0, kMost);
  const std::vector<JsonPart> plateau = state["plateau"].list();
  state["plateau"].check_size(2);
  const LearningRate::Plateau validations{plateau[0].integer(0, kMost), plateau[1].integer(0, kMost)};
  load_tensors(file, session_, learner_.model().tensors());
  load_tensors(file, session_, learner_.training_states(), kTrainingPrefix);

  learner_.restore(static_cast<std::int32_t>(step), updates, accumulated);
  best_score_ = best_score;
  worse_validations_ = worse_validations;
  schedule_.set_plateau(validations);
  if (step > 0) learner_.optimizer().set_lr(schedule_.at(step - 1));
  result_.steps = saved_step_ = step;
  result_.losses = std::move(losses);
  if (checkpoints_ && !scores.empty()) {
    for (const auto& [at, score] : scores) checkpoints_->rate(at, score);
    result_.best_step = std::ranges::max_element(scores, {}, [](const auto& of) { return of.second; })->first;
  }
  epoch_number_ = number;
  epoch_ = epoch;
  seconds_before_ = seconds;
  epoch_start_ = Clock::now();
  interval_ = interval;
  in_epoch_ = in_epoch;
  if (in_epoch) {
    if (epoch_.images > 0) result_.train_loss = epoch_.loss();
    train_loader_.start_epoch(number - 1, done);
    more_ = true;
    load_ahead(1);
    if (epoch_ended())
      saved_step_ = -1;  // the model's file, which may become the best, may be newer than this checkpoint
  }
  return metrics_bytes;
}

}  // namespace braid
