#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>

#include "train/checkpoint.h"
#include "train/interrupt.h"

namespace braid {

namespace {

using nlohmann::json;

std::int64_t count_steps(const TrainConfig& config, const Loader& loader) {
  BRAID_CHECK(loader.batches() > 0, ConfigError,
              "[train] an epoch has no batch: the training set is smaller than "
              "train.batch_size = ",
              config.batch_size, ", and train.drop_last leaves out the incomplete batch");
  const std::int64_t steps = config.epochs * loader.batches();
  return config.max_steps > 0 ? std::min(steps, config.max_steps) : steps;
}

/// All that a trained model consists of.
std::vector<Parameter*> tensors_of(const Module& model) {
  std::vector<Parameter*> tensors = model.parameters();
  const std::vector<Parameter*> states = model.states();
  tensors.insert(tensors.end(), states.begin(), states.end());
  return tensors;
}

}  // namespace

Trainer::Trainer(const TrainConfig& config)
    : config_(config),
      train_set_(make_dataset(config, Split::train)),
      test_set_(make_dataset(config, Split::test)),
      session_(config.session),
      model_(make_model(config.model, session_, *train_set_)),
      train_loader_(train_set_, loader_options(config, Split::train)),
      test_loader_(test_set_, loader_options(config, Split::test)),
      optimizer_(make_optimizer(config.optimizer, model_->parameters())),
      total_steps_(count_steps(config, train_loader_)),
      schedule_(config.schedule, config.optimizer.lr, train_loader_.batches(), total_steps_) {}

TrainResult Trainer::run(Progress& progress) {
  const InterruptGuard interrupt;
  const auto stop = [&] { return interrupt.requested(); };
  RunFolder folder(config_.output_root, config_.name, to_yaml(config_));
  result_.folder = folder.path();
  progress.print(message(config_.model.name, " (", model_->parameter_count(), " parameters) on ", session_.device(),
                         ", ", train_set_->name(), ", ", total_steps_, " steps; results in ", folder.path().string()));
  try {
    train_epochs(folder, progress, stop);
  } catch (const std::exception& error) {
    note_failure(folder, error.what());
    throw;
  }
  if (result_.interrupted) {
    folder.append_metrics(json{{"event", "interrupted"}, {"step", result_.steps}}.dump());
    progress.print(message("interrupted after step ", result_.steps, "; the model is saved"));
  }
  progress.print(message("results are in ", folder.path().string()));
  return result_;
}

void Trainer::train_epochs(RunFolder& folder, Progress& progress, const std::function<bool()>& stop) {
  while (!finished() && !result_.interrupted) {
    Epoch epoch{.number = result_.steps / train_loader_.batches() + 1};
    result_.interrupted = !train_epoch(epoch, folder, progress, stop);
    if (epoch.images > 0) result_.train_loss = epoch.loss();
    const double seconds = epoch.seconds();
    const std::string plans = session_.choice_report();  // before evaluation makes plans of its own
    if (epoch.number == 1 && !plans.empty()) progress.print("plans measured: " + plans);
    save_checkpoint(folder.model_path(), session_, tensors_of(*model_));
    if (!result_.interrupted) {
      const Evaluation test = evaluate(session_, *model_, test_loader_, stop);
      result_.interrupted = stop();
      if (result_.interrupted) break;  // with only a part of the test set seen
      result_.test = test;
      report_epoch(epoch, seconds, folder, progress);
    }
  }
}

void Trainer::note_failure(RunFolder& folder, std::string_view what) const {
  try {
    folder.append_metrics(json{{"event", "failed"}, {"step", result_.steps}, {"message", what}}.dump());
  } catch (const Error&) {
    // The disk may be what failed; the first error is the one to report.
  }
}

bool Trainer::train_epoch(Epoch& epoch, RunFolder& folder, Progress& progress, const std::function<bool()>& stop) {
  train_loader_.start_epoch(epoch.number - 1);
  Batch batch;
  bool more = train_loader_.next(batch);
  epoch.start = Clock::now();
  while (more && !finished()) {
    if (stop()) return false;
    more = train_step(batch, epoch);
    report_step(epoch, folder, progress);
  }
  return true;
}

bool Trainer::train_step(Batch& batch, Epoch& epoch) {
  optimizer_->set_lr(schedule_.at(result_.steps));
  Step step = session_.step();
  const Tensor logits = (*model_)(batch.images);
  const Tensor labels = batch.labels;
  const Tensor loss = cross_entropy(logits, labels, config_.label_smoothing);
  const Tensor top1 = accuracy(logits, labels);
  backward(loss);
  optimizer_->step();
  step.run();

  const std::int64_t size = batch.size();
  const bool more = train_loader_.next(batch);
  const double value = loss.item();  // waits for the step
  ++result_.steps;
  BRAID_CHECK(std::isfinite(value), Error, "[train] the loss is ", value, " at step ", result_.steps, " (epoch ",
              epoch.number, ", learning rate ", optimizer_->lr(),
              "): training has diverged. A smaller optimizer.lr or a "
              "longer schedule.warmup_epochs may help");
  epoch.images += size;
  epoch.loss_sum += value * static_cast<double>(size);
  epoch.hits += top1.item() * static_cast<double>(size);
  return more;
}

void Trainer::report_step(const Epoch& epoch, RunFolder& folder, Progress& progress) {
  const bool due = result_.steps % config_.log_interval == 0;
  const double rate = epoch.images_per_second();
  if (due) {
    folder.append_metrics(json{
        {"event", "step"},
        {"step", result_.steps},
        {"epoch", epoch.number},
        {"lr", optimizer_->lr()},
        {"loss", epoch.loss()},
        {"accuracy", epoch.accuracy()},
        {"images_per_second",
         rate}}.dump());
  }
  const double images_left =
      static_cast<double>(total_steps_ - result_.steps) * static_cast<double>(config_.batch_size);
  progress.update({.epoch = epoch.number,
                   .epochs = config_.epochs,
                   .step = result_.steps,
                   .steps = total_steps_,
                   .loss = epoch.loss(),
                   .accuracy = epoch.accuracy(),
                   .images_per_second = rate,
                   .seconds_left = images_left / rate},
                  due);
}

void Trainer::report_epoch(const Epoch& epoch, double seconds, RunFolder& folder, Progress& progress) {
  const Evaluation& test = result_.test;
  const double rate = static_cast<double>(epoch.images) / seconds;
  folder.append_metrics(json{
      {"event", "epoch"},
      {"step", result_.steps},
      {"epoch", epoch.number},
      {"lr", optimizer_->lr()},
      {"loss", epoch.loss()},
      {"accuracy", epoch.accuracy()},
      {"test_loss", test.loss},
      {"test_accuracy", test.top1},
      {"test_top5", test.top5},
      {"seconds", seconds},
      {"images_per_second",
       rate}}.dump());
  std::ostringstream line;
  line << std::fixed << std::setprecision(4) << "epoch " << epoch.number << '/' << config_.epochs << ": loss "
       << epoch.loss() << std::setprecision(2) << ", accuracy " << 100 * epoch.accuracy() << " %; " << to_string(test)
       << "; trained for " << std::setprecision(1) << seconds << " s at " << std::setprecision(0) << rate
       << " images/s";
  progress.print(line.str());
}

Evaluation evaluate_checkpoint(const TrainConfig& config, const std::filesystem::path& checkpoint) {
  const auto dataset = make_dataset(config, Split::test);
  Session session(config.session);
  const auto model = make_model(config.model, session, *dataset);
  load_checkpoint(checkpoint, session, tensors_of(*model));
  Loader loader(dataset, loader_options(config, Split::test));
  return evaluate(session, *model, loader);
}

}  // namespace braid
