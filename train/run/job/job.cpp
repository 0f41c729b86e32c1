#include "train/run/job/job.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/exception_text.h"
#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "runtime/agreement.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/training_images.h"

namespace braid {

namespace {

std::int64_t count_steps(const TrainConfig& config, const Loader& loader) {
  BRAID_CHECK(loader.batches() > 0, ConfigError,
              "[train] an epoch has no batch: the training set is smaller than "
              "train.batch_size = ",
              config.batch_size, ", and train.drop_last leaves out the incomplete batch");
  const std::int64_t steps = config.epochs * loader.batches();
  return config.max_steps > 0 ? std::min(steps, config.max_steps) : steps;
}

}  // namespace

std::string TrainResult::failure_text() const { return failure == nullptr ? "" : exception_text(failure); }

Job::Job(const TrainConfig& config, Session& session, DatasetPool& datasets)
    : config_(config),
      session_(session),
      train_set_(datasets.get(config, Split::train)),
      val_set_(datasets.get(config, Split::val)),
      train_loader_(train_set_, training_options(config, *train_set_)),
      val_loader_(val_set_, loader_options(config, Split::val)),
      total_steps_(count_steps(config, train_loader_)),
      schedule_(config.schedule, config.optimizer.lr, train_loader_.batches(), total_steps_),
      learner_(config, session, *train_set_),
      inference_(learner_.model()) {
  result_.name = config.name;
  check_last_batch();
  if (config.session.memory_limit == 0) return;
  // Detect an evaluation that does not fit now, not after an epoch.
  plan_evaluation(session, inference_, *val_set_, config.eval_batch_size, config.dtype);
}

std::string Job::description() const {
  const ParallelOptions& parallel = session_.parallel();
  const int ranks = parallel.ranks();
  const std::string_view how = parallel.stages() > 1 ? " as the stages of a pipeline" : "";
  return message(config_.model.title(), ", ", counted(learner_.model().parameter_count(), "parameter"), ", ",
                 precision_in_use(config_, session_.backend().info()), " on ",
                 ranks > 1 ? message(plural(ranks, "rank"), how, ", each on ") : "", session_.device(), ", ",
                 train_set_->name(), ": ", counted(train_set_->size(), "image"), " in ", counted(total_steps_, "step"));
}

std::string Job::data_summary() const {
  std::string text;
  for (const auto& set : {train_set_, val_set_}) {
    text += message(to_string(set == train_set_ ? Split::train : Split::val), " set: ", set->name(), ", ",
                    plural(set->size(), "image"), ' ', set->image_shape(), ", ", plural(set->classes(), "class", "es"),
                    ", fingerprint ", set->fingerprint().low, '\n');
  }
  return text;
}

void Job::check_last_batch() {
  const std::int64_t size = train_set_->size() % config_.batch_size;
  if (size == 0 || config_.drop_last || total_steps_ < train_loader_.batches() ||
      session_.parallel().shard_count() > 1) {
    return;
  }
  try {
    learner_.check(blank_batch(*train_set_, size));
  } catch (const ShapeError& error) {
    throw ConfigError(message("[train] the last batch of an epoch has ", plural(size, "image"), ": ", error.what(),
                              "; set train.drop_last, or another train.batch_size"));
  }
}

void Job::begin_epoch() {
  epoch_number_ = learner_.steps() / train_loader_.batches() + 1;
  epoch_ = {};
  seconds_before_ = 0;
  train_loader_.start_epoch(epoch_number_ - 1);
  in_epoch_ = more_ = true;
  load_ahead(1);
  epoch_start_ = Clock::now();
}

Fetched Job::count_requests(bool own) const {
  const ParallelOptions& parallel = session_.parallel();
  Array requests(DType::f32, {parallel.shard_count() / parallel.data_ranks()});
  requests.as<float>()[0] = own ? 1 : 0;
  Tensor count;
  for (int stage = 0; stage < parallel.stages(); ++stage) {  // each with the request of its rank
    const Tape::AtStage at(session_.tape(), stage);
    const Tensor its = sum(place(requests, Layout::split));
    count = stage == 0 ? its : count + its;
  }
  return count.fetch();
}

std::int64_t Job::record(std::int64_t steps, Requests requests) {
  if (!in_epoch_) begin_epoch();
  newest_ = 0;
  load_ahead(steps);
  for (const Batch& batch : batches_) {
    const double lr = schedule_.at(learner_.steps());
    learner_.optimizer().set_lr(lr);
    const Learner::Recorded recorded = learner_.record(batch, next_share());
    const ParallelOptions& parallel = session_.parallel();
    Pending& step = pending_.emplace_back(Pending{recorded.loss.fetch(),
                                                  recorded.top1.fetch(),
                                                  batch.size() * (batch.split ? parallel.data_ranks() : 1),
                                                  lr,
                                                  {},
                                                  {}});
    ++newest_;
    if (parallel.ranks() == 1) continue;
    step.stop = count_requests(requests.stop);
    step.save = count_requests(requests.save);
  }
  batches_.clear();
  return static_cast<std::int64_t>(newest_);
}

Learner::Share Job::next_share() const {
  const std::int64_t batches = train_loader_.batches(), batch = learner_.steps() % batches;  // within the epoch
  const std::int64_t index = batch % config_.accumulate, first = batch - index;
  return {.index = index,
          .count = std::min(config_.accumulate, batches - first),
          .averages = averages_after(learner_.steps() + 1)};
}

bool Job::averages_after(std::int64_t step) const {
  const ParallelOptions& parallel = session_.parallel();
  const std::int64_t every = parallel.average_every;
  return every > 0 && (parallel.ranks() > 1 || parallel.elastic_beta > 0) &&
         (step % every == 0 || step % train_loader_.batches() == 0 || step == total_steps_);
}

void Job::load_ahead(std::int64_t steps) {
  const std::int64_t wanted = std::min(steps, total_steps_ - learner_.steps());
  while (more_ && std::ssize(batches_) < wanted) {
    Batch batch;
    more_ = train_loader_.next(batch);
    if (more_) batches_.push_back(std::move(batch));
  }
}

void Job::list_loaded(std::vector<Array>& arrays) const {
  for (const Batch& batch : batches_) {
    arrays.insert(arrays.end(), {batch.images, batch.labels});
    if (batch.targets.size() > 0) arrays.push_back(batch.targets);
  }
}

void Job::collect(bool all) {
  const std::size_t left = all ? 0 : newest_;
  for (; pending_.size() > left; pending_.pop_front()) {
    const Pending& step = pending_.front();
    const double loss = unsigned_nan(step.loss.item());  // waits for the step
    ++result_.steps;
    if (!std::isfinite(loss)) {
      result_.diverged_at = result_.steps;
      throw Error(message("[train] the loss is ", loss, " at step ", result_.steps, " (epoch ", epoch_number_,
                          ", learning rate ", step.lr,
                          "): training has diverged. A smaller optimizer.lr or a longer schedule.warmup_epochs "
                          "may help"));
    }
    arrived_.stop |= step.stop && step.stop->item() > 0;
    arrived_.save |= step.save && step.save->item() > 0;
    const auto images = static_cast<double>(step.images);
    for (Sums* sums : {&epoch_, &interval_}) sums->add({step.images, loss * images, step.top1.item() * images});
    result_.train_loss = epoch_.loss();
    result_.losses.steps.push_back(loss);
    report_step(step.lr);
  }
}

bool Job::end_epoch(const std::function<bool()>& stop) {
  const double seconds = epoch_seconds();
  save();
  in_epoch_ = false;
  show_progress(false);
  const bool validated = epoch_number_ % config_.eval_every_n_epochs == 0 || finished();
  if (validated && !validate(stop)) return false;
  if (validated && result_.best_step == result_.steps)
    checkpoints_->keep_model(output_->folder.model_path(), output_->folder.best_path());
  report_epoch(seconds, validated);
  note_bad_images();
  return true;
}

void Job::note_bad_images() {
  if (config_.data.max_bad == 0) return;  // the first one has ended the run
  std::string own;
  for (const Loader* loader : {&train_loader_, &val_loader_}) {
    for (const auto& [sample, why] : loader->bad()) own += why + '\n';
  }
  std::set<std::string> all;
  for (const std::string& text : of_all_ranks(session_.parallel(), own)) {
    for (const std::string& why : split_text(text, '\n')) all.insert(why);
  }
  const std::vector<std::string> reasons(all.begin(), all.end());
  BRAID_CHECK(std::ssize(reasons) <= config_.data.max_bad, DataError,
              too_many_bad("image", train_set_->name(), config_.data.max_bad, reasons));
  if (reasons.size() == bad_images_) return;
  bad_images_ = reasons.size();
  if (rank(session_.parallel()) > 0) return;  // all ranks would say the same
  output_->progress.warn(message(plural(reasons.size(), "image"), " of ", train_set_->name(),
                                 " cannot be read, and others take ", reasons.size() == 1 ? "its" : "their",
                                 " place in training; the first: ", reasons[0]));
}

bool Job::validate(const std::function<bool()>& stop) {
  if (learner_.average() != nullptr) learner_.average()->exchange();
  const Evaluation val = evaluate(session_, inference_, val_loader_, config_.dtype, stop);
  if (learner_.average() != nullptr) learner_.average()->exchange();
  if (stop()) return false;  // the evaluation has seen only a part of the validation set
  const double score = config_.metric == Metric::accuracy ? val.top1 : -val.loss;
  const bool best = std::isfinite(score) && (!best_score_ || score > *best_score_);
  if (best) best_score_ = score;
  worse_validations_ = best ? 0 : worse_validations_ + 1;
  stopped_early_ = config_.early_stop > 0 && worse_validations_ >= config_.early_stop;
  schedule_.note_validation(best);
  if (std::isfinite(score) && checkpoints_) checkpoints_->rate(result_.steps, score);
  if (best && checkpoints_) result_.best_step = result_.steps;
  result_.val = val;
  result_.losses.val.emplace_back(result_.steps, val.loss);
  return true;
}

bool Job::save_due() const {
  const std::int64_t interval = config_.checkpoint.every_n_steps;
  return interval > 0 && learner_.steps() / interval > std::max<std::int64_t>(saved_step_, 0) / interval;
}

void Job::compare_ranks() {
  const ParallelOptions& parallel = session_.parallel();
  if (parallel.stages() > 1) return;  // each tensor has one owner
  const bool is_elastic = parallel.elastic_beta > 0,
             is_alone = parallel.average_every > 0 && !averages_after(result_.steps);
  if (parallel.ranks() == 1 || (is_alone && !is_elastic)) return;
  std::vector<Parameter*> tensors = learner_.training_states(), of_model = learner_.model().tensors();
  tensors.insert(tensors.end(), of_model.begin(), of_model.end());
  if (is_elastic) tensors.assign(learner_.average()->averages().begin(), learner_.average()->averages().end());
  require_same_bits(session_, tensors, message("the model after step ", result_.steps));
}

void Job::save() {
  if (saved_step_ == result_.steps) return;
  compare_ranks();
  if (!checkpoints_) {  // rank 0 needs the pieces of all
    if (session_.parallel().splits_tensors()) static_cast<void>(checkpoint_tensors());
    saved_step_ = result_.steps;
    return;
  }
  Checkpoint state = checkpoint();
  std::map<std::string, Array> copies;
  for (const NamedArray& tensor : state.tensors) copies[tensor.name] = tensor.value;
  Checkpoint model{.tensors = {}, .metadata = model_metadata(config_.data, *train_set_, *val_set_)};
  for (const Parameter* tensor : learner_.model().tensors()) {
    const auto average = copies.find(message(kTrainingPrefix, WeightAverage::kPrefix, tensor->name()));
    model.tensors.push_back({tensor->name(), average != copies.end() ? average->second : copies.at(tensor->name())});
  }
  checkpoints_->save(std::move(state), output_->folder.model_path(), std::move(model));
  saved_step_ = result_.steps;
}

void Job::finish_saving() {
  if (checkpoints_) checkpoints_->finish();
}

void Job::interrupt() {
  save();
  finish_saving();
  output_->folder.append_metrics(Json{{"event", "interrupted"}, {"step", result_.steps}});
  result_.interrupted = true;
}

void Job::Sums::add(const Sums& step) {
  images += step.images;
  loss_sum += step.loss_sum;
  hits += step.hits;
}

void Job::show_progress(bool due) const {
  const double images_left =
      static_cast<double>(total_steps_ - result_.steps) * static_cast<double>(config_.batch_size);
  ProgressState state = shown_ ? *shown_ : (interval_.images > 0 ? interval_ : epoch_).means();
  state.images_per_second = images_per_second();  // of few steps, it would depend on when they are read
  state.epoch = epoch_number_;
  state.epochs = config_.epochs;
  state.step = result_.steps;
  state.steps = total_steps_;
  state.seconds_left = images_left / state.images_per_second;
  state.validating = !in_epoch_;
  output_->progress.update(output_->row, state, due);
}

void Job::report_step(double lr) {
  const bool due = result_.steps % config_.log_interval == 0;
  if (due) {
    shown_ = interval_.means();
    const Json record{{"event", "step"},
                      {"step", result_.steps},
                      {"epoch", epoch_number_},
                      {"lr", lr},
                      {"loss", shown_->loss},
                      {"accuracy", shown_->accuracy},
                      {"images_per_second", images_per_second()}};
    output_->folder.append_metrics(record);
    interval_ = {};
  }
  show_progress(due);
}

void Job::report_epoch(double seconds, bool validated) const {
  const Evaluation& val = result_.val;
  const double rate = static_cast<double>(epoch_.images) / seconds;
  Json record{{"event", "epoch"},         {"step", result_.steps},
              {"epoch", epoch_number_},   {"lr", learner_.optimizer().lr()},
              {"loss", epoch_.loss()},    {"accuracy", epoch_.accuracy()},
              {"seconds", seconds},       {"waiting_seconds", train_loader_.waited()},
              {"images_per_second", rate}};
  if (validated) {
    record["val_loss"] = val.loss;
    record["val_accuracy"] = val.top1;
    record["val_top5"] = val.top5;
  }
  output_->folder.append_metrics(record);
  const std::string val_text = message("  val ", short_text(val), result_.best_step == result_.steps ? " (best)" : "");
  print(message("epoch ", epoch_number_, '/', config_.epochs, "  train loss ", fixed(epoch_.loss(), 3), " acc ",
                fixed(100 * epoch_.accuracy(), 1), " %", validated ? val_text : "", "  ", fixed(seconds, 1), " s"));
  if (stopped_early_) {
    print(message("stopped early: ", plural(worse_validations_, "validation"), " in a row not better than the best"));
  }
}

}  // namespace braid
