// The keys of the sections that say how to train: train, eval, optimizer, schedule and checkpoint.

#include <algorithm>

#include "train/config/config.h"

namespace braid {

void OptimizerConfig::declare(const Keys& keys) {
  keys("name", name, {.words = {"sgd", "adam", "adamw"}, .synonyms = {"solver_type"}}, "how weights are updated");
  if (lr == 0) lr = name == "sgd" ? 0.1 : 1e-3;
  keys("lr", lr, {.above = 0, .synonyms = {"learning_rate", "base_lr", "max_lr"}},
       "the rate that the schedule starts from or rises to");
  keys("weight_decay", weight_decay, {.min = 0, .synonyms = {"wd"}},
       "not applied to biases and batch norm; decoupled in `adamw`");
  if (name == "sgd") {
    keys("momentum", momentum, {.min = 0, .below = 1}, "0 for none");
    keys("nesterov", nesterov, {}, "Nesterov's momentum; needs a momentum above 0");
    keys.check("nesterov", !nesterov || momentum > 0, "needs a momentum above 0");
  } else {
    keys("beta1", beta1, {.min = 0, .below = 1, .synonyms = {"betas"}}, "decay of the mean of gradients");
    keys("beta2", beta2, {.min = 0, .below = 1}, "decay of the mean of squared gradients");
    keys("epsilon", epsilon, {.above = 0, .synonyms = {"eps"}},
         "added to the square root of the mean of squared gradients");
  }
  keys.list("groups", groups, {.synonyms = {"param_groups", "parameter_groups", "custom_keys", "paramwise_cfg"}},
            "parameters with a rate or decay other than these, for example `[{parameters: conv1.*, lr: 0.01}]`; a "
            "parameter belongs to the first group that names it",
            [](const Keys& of_group, Group& group) {
              of_group("parameters", group.parameters,
                       {.min_items = 1, .single = true, .required = true, .synonyms = {"params", "names", "match"}},
                       "patterns of their names as in a shell");
              of_group("lr", group.lr, {.above = 0, .synonyms = {"learning_rate"}},
                       "their rate in place of `optimizer.lr`; the schedule changes both in proportion");
              of_group("weight_decay", group.weight_decay, {.min = 0, .synonyms = {"wd"}},
                       "their decay in place of `optimizer.weight_decay`");
            });
}

void ScheduleOptions::declare(const Keys& keys) {
  keys("name", name, {.words = schedule_names(), .synonyms = {"lr_policy"}}, "the curve of the rate");
  if (name != "one_cycle") {  // it has its own warm-up: pct_start
    keys("warmup_epochs", warmup_epochs,
         {.min = 0, .max = KeyRule::kMaxCount, .unit = "epochs", .synonyms = {"warmup"}},
         "epochs in which the rate rises linearly from nearly 0");
  }
  if (name == "step") {
    keys("milestones", milestones, {.above = 0, .unit = "epochs", .synonyms = {"stepvalue"}},
         "ascending epochs after which the rate falls. A `step` schedule has either these or `step_epochs`");
    keys.check("milestones", std::ranges::is_sorted(milestones), "expected ascending epochs");
    keys("step_epochs", step_epochs,
         {.min = 1, .max = KeyRule::kMaxCount, .unit = "epochs", .synonyms = {"step_size", "stepsize", "decay_epochs"}},
         "the rate falls each time this many epochs have passed");
    keys.check("name", milestones.empty() != (step_epochs == 0),
               "a 'step' schedule needs either milestones or step_epochs");
  }
  if (name == "plateau") {
    keys("patience", patience, {.min = 0, .max = KeyRule::kMaxCount, .synonyms = {"patience_epochs"}},
         "validations in a row that may be no better than the best before the rate falls");
  }
  if (name == "step" || name == "plateau") {
    keys("gamma", gamma, {.above = 0, .max = 1, .synonyms = {"decay_rate", "lr_decay", "factor"}},
         "factor that multiplies the rate");
  }
  if (name == "cosine" || name == "plateau")
    keys("min_lr", min_lr, {.min = 0, .synonyms = {"eta_min"}}, "the lowest rate; `cosine` ends with it");
  if (name == "one_cycle") {
    keys("pct_start", pct_start, {.min = 0, .max = 1}, "share of the steps in which the rate rises");
    keys("div_factor", div_factor, {.above = 0}, "the rate starts at lr / div_factor");
    keys("final_div_factor", final_div_factor, {.above = 0}, "the rate ends at lr / div_factor / final_div_factor");
  }
}

void CheckpointConfig::declare(const Keys& keys) {
  keys("every_n_steps", every_n_steps,
       {.min = 0,
        .max = KeyRule::kMaxCount,
        .synonyms = {"every_n_train_steps", "save_steps", "snapshot", "interval", "recovery_interval"}},
       "saves after this many steps, too, and not only after every epoch; 0: after epochs only");
  keys("keep_last", keep_last,
       {.min = 1, .max = KeyRule::kMaxCount, .synonyms = {"save_total_limit", "checkpoint_hist", "max_to_keep"}},
       "newest checkpoints to keep");
  keys("keep_best", keep_best, {.min = 0, .max = KeyRule::kMaxCount, .synonyms = {"save_top_k"}},
       "how many checkpoints with the best validation results to keep as well, by `eval.metric`");
}

void TrainConfig::declare_class_weights(const Keys& train) {
  std::string weights = balances_classes ? "balanced" : "none";
  if (class_weights.empty()) {
    train("class_weights", weights, {.words = {"none", "balanced"}, .synonyms = {"class_weight"}},
          "factors of the loss by class: `balanced` gives each class images / (classes · images of the class), as in "
          "scikit-learn");
  }
  train("class_weights", class_weights, {.min = 0, .min_items = 2},
        "or a list of them, one per class. The loss is the mean over the images of a batch: unlike PyTorch's, it is "
        "not divided by the sum of their weights");
  balances_classes = class_weights.empty() && weights == "balanced";
  train.check("class_weights", model.task() != models::Task::generation || (weights == "none" && class_weights.empty()),
              "has no meaning for a network that makes images");
  train.check("class_weights",
              loss.kind != ClassLoss::Kind::binary_cross_entropy || (weights == "none" && class_weights.empty()),
              "are for cross_entropy and focal: binary cross entropy has targets between 0 and 1");
  train.check("class_weights", !data.has_masks() || !balances_classes,
              "balanced needs a class for each image: for masks, give a list");
}

void TrainConfig::declare_training(const Keys& keys) {
  model.declare(keys.section("model", "the network", {"net", "network"}));
  const Keys of_data = keys.section("data", "the images", {"dataset"});
  data.declare(of_data);
  data.declare_classes(
      of_data, "only_classes", data.only_classes, {},
      "train and validate with these classes only, relabelled 0, 1, … in this order; empty: all classes");
  of_data(
      "pairs", data.pairs, {},
      "shows images in pairs, side by side, whose classes are `different` and `same`: for `model: {name: siamese}`");
  std::string sampler = data.balances_classes ? "balanced" : "random";
  of_data("sampler", sampler, {.words = {"random", "balanced"}, .synonyms = {"weighted_sampler", "class_sampling"}},
          "the order of the training images: shuffled (`random`), or so that all classes come equally often "
          "(`balanced`): an epoch has as many images, but repeats those of rare classes and leaves out some of others");
  data.balances_classes = sampler == "balanced";
  check_task(of_data);
  const Keys train = keys.section("train", "how long to train, and in which batches", {"training"});
  train("epochs", epochs,
        {.min = 1, .max = KeyRule::kMaxCount, .required = true, .synonyms = {"max_epochs", "num_epochs", "n_epochs"}},
        "passes over the training images");
  train("batch_size", batch_size,
        {.min = 1, .max = KeyRule::kMaxCount, .synonyms = {"batch", "train_batch_size", "bs"}}, "images in a step");
  train("drop_last", drop_last, {}, "leaves out the last batch of an epoch if it is smaller than the others");
  train("loss", loss.kind, {.words = {"cross_entropy", "focal", "binary_cross_entropy"}, .synonyms = {"criterion"}},
        "what training minimizes: `focal` weighs samples that are predicted well less; `binary_cross_entropy` judges "
        "each class by itself, as timm's `--bce-loss`. Validation reports cross entropy in any case");
  train("focal_gamma", loss.gamma, {.min = 1}, "with `loss: focal`: the power of (1 − probability)");
  train.check("loss", model.task() != models::Task::generation || loss.kind == ClassLoss::Kind::cross_entropy,
              "has no other value for a network that makes images");
  train("label_smoothing", loss.label_smoothing, {.min = 0, .below = 1, .synonyms = {"smoothing"}},
        "share of a label's weight that is spread evenly over all classes");
  declare_class_weights(train);
  train("log_interval", log_interval,
        {.min = 1, .max = KeyRule::kMaxCount, .synonyms = {"display", "log_every", "log_freq", "print_freq"}},
        "steps between records of metrics");
  train("max_steps", max_steps,
        {.min = 0, .max = KeyRule::kMaxCount, .synonyms = {"max_iter", "max_iters", "iterations", "num_steps"}},
        "ends the run after this many steps, which the learning-rate schedule then spans; 0: no limit");
  train("accumulate", accumulate,
        {.min = 1,
         .max = KeyRule::kMaxCount,
         .synonyms = {"accumulate_grad_batches", "gradient_accumulation_steps", "iter_size", "grad_accum_steps"}},
        "steps whose gradients are averaged into one update, within an epoch");
  train("clip_norm", clip_norm,
        {.min = 0, .synonyms = {"clip_grad", "clip_gradients", "gradient_clip_val", "max_norm", "max_grad_norm"}},
        "largest norm of all gradients together; larger ones are scaled down to it; 0: no limit");
  train("ema_decay", ema_decay, {.min = 0, .below = 1, .synonyms = {"model_ema_decay", "ema", "model_ema"}},
        "decay of a moving average of the weights, which is then what is validated and saved; 0: none");
  train.check("ema_decay", ema_decay == 0 || session.parallel.elastic_beta == 0,
              "expected 0 with parallel.elastic_beta, whose centre is validated and saved");
  train("early_stop", early_stop,
        {.min = 0, .max = KeyRule::kMaxCount, .synonyms = {"early_stopping", "early_stopping_patience", "patience"}},
        "ends the run after this many validations in a row that were not the best so far; 0: never");
  const Keys eval = keys.section("eval", "how to validate", {"val", "validation", "evaluation", "test"});
  eval("batch_size", eval_batch_size,
       {.min = 1,
        .max = KeyRule::kMaxCount,
        .synonyms = {"val_batch_size", "test_batch_size", "eval_batch_size", "validation_batch_size"}},
       "images in an evaluation step");
  eval("every_n_epochs", eval_every_n_epochs,
       {.min = 1, .max = KeyRule::kMaxCount, .synonyms = {"check_val_every_n_epoch", "val_interval", "test_interval"}},
       "epochs between validations; the last epoch is always followed by one");
  eval("metric", metric, {.words = {"accuracy", "loss"}, .synonyms = {"eval_metric", "monitor"}},
       "how validations are ranked: by the highest accuracy or by the lowest loss");
  optimizer.declare(keys.section("optimizer", "how weights are updated", {"opt", "optim", "solver"}));
  schedule.declare(
      keys.section("schedule", "how the learning rate changes", {"scheduler", "lr_scheduler", "lr_schedule", "sched"}));
  checkpoint.declare(
      keys.section("checkpoint", "what to save, so that `braid train --resume` can continue", {"checkpoints", "save"}));
}

}  // namespace braid
