#include "train/run/trainer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/base/median.h"
#include "core/base/read_file.h"
#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "runtime/agreement.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/training_images.h"
#include "train/report/plan/trace.h"
#include "train/run/balance.h"
#include "train/run/interrupt.h"
#include "train/run/strategy.h"

namespace braid {

namespace {

/// Rounds that a job takes alone before it is balanced with the others, and how many of the last ones count. They take
/// at most a quarter of a short training.
constexpr std::int64_t kRoundsAlone = 8, kCounted = 5;
/// Steps with the chosen plan before one is measured and shown.
constexpr int kStepsBeforeShown = 3;

std::string report_json(const TrainResult& job) {
  Json report{{"name", job.name},
              {"steps", job.steps},
              {"interrupted", job.interrupted},
              {"train_loss", job.train_loss},
              {"model", RunFolder::kModel}};
  if (job.failure != nullptr) report["failure"] = job.failure_text();
  if (job.val.samples > 0) {
    report["val"] = Json{{"loss", job.val.loss}, {"accuracy", job.val.top1}, {"top5", job.val.top5}};
  }
  if (job.best_step > 0) report["best"] = Json{{"model", RunFolder::kBest}, {"step", job.best_step}};
  return report.dump_sorted(2) + '\n';
}

/// A model with weights that are not finite computes nothing useful.
void check_finite(Session& session, std::span<Parameter* const> tensors, const std::filesystem::path& checkpoint) {
  for (const Parameter* tensor : tensors) {
    if (tensor->desc().dtype != DType::f32) continue;
    const Array array = session.read(*tensor);
    const std::span<const float> values = array.as<float>();
    const auto found = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
    BRAID_CHECK(found == values.end(), DataError, checkpoint.string(), ": tensor '", tensor->name(),
                "': expected finite elements, found ", unsigned_nan(*found), " at index ", found - values.begin(),
                ": the training that wrote the checkpoint has diverged");
  }
}

RunConfig with_strategy(RunConfig config, DatasetPool& datasets) {
  TrainConfig& training = config.jobs.front().training;
  BRAID_CHECK(!config.together || training.session.parallel.strategy == "data", ConfigError,
              "[parallel] strategy: expected a config with one model, got a list of jobs");
  set_strategy(training, datasets);
  return config;
}

}  // namespace

bool RunResult::failed() const {
  return std::ranges::any_of(jobs, [](const TrainResult& job) { return job.failure != nullptr; });
}

Trainer::Trainer(RunConfig config, DatasetPool datasets)
    : config_(with_strategy(std::move(config), datasets)),
      session_(session_options(config_.jobs.front().training)),
      datasets_(std::move(datasets)) {
  BRAID_CHECK(session_.parallel().ranks() == 1 || !config_.together, ConfigError,
              "[parallel] expected a config with one model, got a list of jobs: several ranks train one model");
  std::int64_t most_steps = 0;
  for (JobConfig& job : config_.jobs) {
    Entry& entry = entries_.emplace_back(Entry{job});
    entry.steps_per_round = job.training.session.parallel.steps_per_execution;
    entry.result.name = job.training.name;
    try {
      compute_normalization(job.training, datasets_);
      entry.job = std::make_unique<Job>(job.training, session_, datasets_);
      most_steps = std::max(most_steps, entry.job->total_steps());
    } catch (const std::exception&) {
      if (!config_.together) throw;
      entry.result.failure = std::current_exception();
    }
  }
  session_.expect_steps(most_steps);
}

RunResult Trainer::run(Progress& progress) {
  const InterruptGuard interrupt;
  progress_ = &progress;
  interrupt_ = &interrupt;
  try {
    compare_ranks();
    open_folders();
    for (Entry& entry : entries_) end_epoch(entry);
    train();
    collect(true);
  } catch (const std::exception&) {
    for (Entry& entry : entries_) {
      if (entry.folder != nullptr) attempt(entry, [] { throw; });
    }
    throw;
  }
  RunResult result;
  result.folder = folder_ ? folder_->path() : entries_.front().folder->path();
  result.interrupted = interrupt.signal() == 0 && stops_ ? SIGTERM : interrupt.signal();
  for (Entry& entry : entries_) {
    attempt(entry, [&] { entry.job->interrupt(); });
    if (entry.job != nullptr) end(entry);
  }
  show();
  explain_divergence();
  for (const Entry& entry : entries_) result.jobs.push_back(entry.result);
  if (!config_.together && result.failed()) std::rethrow_exception(result.jobs.front().failure);
  // Ranks end together, so that none is stopped while it saves.
  if (session_.parallel().ranks() > 1) session_.parallel().communicator->barrier();
  report_results(result);
  return result;
}

void Trainer::compare_ranks() const {
  const ParallelOptions& parallel = session_.parallel();
  if (parallel.ranks() == 1) return;
  const Entry& entry = entries_.front();
  const std::size_t program = std::hash<std::string>()(read_file("/proc/self/exe", "the program"));
  require_same_text(parallel, message("program: ", program, '\n', to_yaml(config_), entry.job->data_summary()),
                    "the training");
  const std::string layers = to_json(parallel.layers, parallel.shard_count());
  require_same_text(parallel, layers, "the strategy");
  const std::string& costs = entry.config.training.session.profile;
  if (!costs.empty()) require_same_text(parallel, read_file(costs, "the profile"), costs);
}

void Trainer::report_results(const RunResult& result) const {
  for (std::size_t i = 0; i < result.jobs.size(); ++i) {
    const TrainResult& job = result.jobs[i];
    if (entries_[i].folder != nullptr) entries_[i].folder->write_report(report_json(job));
    const std::string tested = job.val.samples > 0 ? "; val " + to_string(job.val) : "";
    if (job.best_step > 0 && job.best_step < job.steps) {
      progress_->print(
          i, message("the best validation was after step ", job.best_step, ": ", RunFolder::kBest, " is its model"));
    }
    if (job.interrupted) {
      progress_->print(i, message("interrupted after step ", job.steps, "; the model is saved", tested));
    } else if (config_.together) {
      progress_->print(
          i, message(job.failure != nullptr ? "failed" : "done", " after ", plural(job.steps, "step"), tested));
    }
  }
  progress_->print(message("results are in ", result.folder.string()));
}

void Trainer::open_folders() {
  std::vector<std::string> rows;
  if (config_.together) {
    folder_ = resumed_.empty() ? std::make_unique<RunFolder>(config_.output_root, config_.name, to_yaml(config_))
                               : RunFolder::reopen(resumed_);
    for (const Entry& entry : entries_) rows.push_back(entry.result.name);
    progress_->set_rows(rows);
  }
  for (Entry& entry : entries_) {
    entry.folder = open_folder(entry);
    entry.result.folder = entry.folder->path();
    if (entry.result.failure != nullptr) {
      fail(entry);
    } else {
      progress_->print(row(entry), message(entry.job->description(), "; results in ", entry.folder->path().string()));
      attempt(entry, [&] { entry.job->open(output(entry)); });
    }
  }
  if (folder_ != nullptr && running().size() == entries_.size()) folder_->go_on(to_yaml(config_));
  if (folder_ == nullptr && running().empty() && resumed_.empty() && rank(session_.parallel()) == 0) {
    std::error_code ignored;  // the failure is what counts
    remove_all(entries_.front().folder->path(), ignored);
  }
}

std::unique_ptr<RunFolder> Trainer::open_folder(const Entry& entry) const {
  // Rank 0 makes it, and tells the others where.
  const ParallelOptions& parallel = session_.parallel();
  std::unique_ptr<RunFolder> own = rank(parallel) == 0 ? make_folder(entry) : nullptr;
  const std::string path = of_first_rank(parallel, own != nullptr ? own->path().string() : "");
  return own != nullptr ? std::move(own) : RunFolder::of_other_rank(path);
}

std::unique_ptr<RunFolder> Trainer::make_folder(const Entry& entry) const {
  const std::string yaml = to_yaml(entry.config.training);
  const std::string& name = entry.result.name;
  const std::filesystem::path folder = folder_ == nullptr ? resumed_ : folder_->path() / name;
  // A run that ended early may have made no folder for its last jobs.
  if (!resumed_.empty() && (folder_ == nullptr || exists(folder))) return RunFolder::reopen(folder);
  if (folder_ != nullptr) return std::make_unique<RunFolder>(*folder_, name, yaml);
  return std::make_unique<RunFolder>(config_.output_root, config_.name, yaml);
}

std::optional<PlanChoice> Trainer::steps_as_one() const {
  const ParallelOptions& parallel = session_.parallel();
  const std::int64_t steps = entries_.front().steps_per_round;
  if (config_.together || entries_.front().job == nullptr || steps == 1 || session_.options().streams > 0) return {};
  if (parallel.ranks() > 2 && !parallel.exact()) return {};
  return PlanChoice({{.name = message(steps, " steps as one")}, {.name = "single steps"}},
                    entries_.front().job->total_steps());
}

void Trainer::train() {
  const bool alone = session_.parallel().ranks() == 1;
  std::optional<PlanChoice> choice = steps_as_one();
  const std::int64_t as_one = entries_.front().steps_per_round;
  if (entries_.size() > 1) measure_alone();
  std::size_t jobs = 0;  // in the last round
  std::string traded;    // for memory, as last printed
  std::set<std::string> said;
  const auto say_once = [&](const std::string& report, std::string_view what) {
    if (!report.empty() && said.insert(report).second) progress_->print(message(what, report));
  };
  while (!stopped()) {
    const std::vector<Entry*> entries = running();
    if (entries.empty()) return;
    const bool changed = entries.size() != jobs;
    if (changed && entries_.size() > 1) balance();
    jobs = entries.size();
    if (!alone) requests_ = {interrupt_->requested(), interrupt_->take_save_request()};
    timing_ = choice.has_value() && choice->comparing();
    const std::int64_t before = entries.front()->steps_per_round;
    if (choice.has_value()) entries.front()->steps_per_round = choice->next() == 0 ? as_one : 1;
    const bool settled = entries.front()->steps_per_round == before && !session_.choosing();
    const Round round = run_round(entries);
    // Runs that follow another kind of round, or in which plans are compared, do not count.
    if (timing_ && settled && !session_.choosing() && round.steps == before) {
      choice->add_run(largest(session_.parallel(), round.seconds / static_cast<double>(round.steps)));
      if (!choice->comparing()) progress_->print(choice->summary());
    }
    if (alone ? interrupt_->take_save_request() : take_requests()) save(true);
    if (changed && jobs > 1) report_memory(entries, round.arena_bytes);
    if (!session_.choosing()) say_once(session_.choice_summary(), "");
    say_once(session_.capture_report(), "warning: ");
    say_once(session_.autotune_clock(), "implementations timed by ");
    if (session_.memory_report() != traded) {
      traded = session_.memory_report();
      if (!traded.empty()) progress_->print("to fit the memory limit: " + traded);
    }
  }
}

void Trainer::measure_alone() {
  for (Entry& entry : entries_) {
    Entry* const alone[] = {&entry};
    std::vector<double> seconds;
    const std::int64_t most = entry.job == nullptr ? 0 : entry.job->total_steps() / 4;
    for (std::int64_t rounds = 0; entry.job != nullptr && !stopped(); ++rounds) {
      if (rounds > 0 && (rounds >= most || (rounds >= kRoundsAlone && !session_.choosing()))) break;
      const Round round = run_round(alone);
      seconds.push_back(round.seconds);
      entry.arena_bytes = round.arena_bytes;
    }
    collect(true);
    if (seconds.empty()) continue;
    const std::ptrdiff_t counted = std::min<std::ptrdiff_t>(kCounted, std::ssize(seconds));
    entry.seconds = median({seconds.end() - counted, seconds.end()});
  }
}

void Trainer::balance() {
  const std::vector<Entry*> entries = running();
  std::vector<double> seconds;
  std::vector<int> wanted;
  for (const Entry* entry : entries) {
    seconds.push_back(entry->seconds);
    wanted.push_back(entry->config.steps_per_round);
  }
  const std::vector<std::int64_t> balanced = balanced_steps(seconds, wanted);
  std::vector<std::string> steps, times;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i]->steps_per_round = balanced[i];
    steps.push_back(message(entries[i]->result.name, ' ', balanced[i]));
    times.push_back(fixed(seconds[i] * 1e3, 1));
  }
  if (entries.size() == 1) return;
  progress_->print(message("steps per round: ", comma_list(steps), " (a step alone takes ", comma_list(times), " ms)"));
}

void Trainer::report_memory(std::span<Entry* const> entries, std::size_t joint_arena_bytes) {
  std::size_t sum = 0;
  std::string singles;
  for (const Entry* entry : entries) {
    singles += (entry == entries.front() ? "" : " + ") + mebibytes(entry->arena_bytes);
    sum += entry->arena_bytes;
  }
  progress_->print(message("arena of the joint plan: ", mebibytes(joint_arena_bytes),
                           " MiB; of the separate plans: ", singles, " = ", mebibytes(sum), " MiB"));
  folder_->append_metrics(
      Json{{"event", "memory"}, {"joint_arena_bytes", joint_arena_bytes}, {"single_arena_bytes", sum}});
}

std::vector<Trainer::Entry*> Trainer::running() {
  std::vector<Entry*> entries;
  for (Entry& entry : entries_) {
    if (entry.job != nullptr) entries.push_back(&entry);
  }
  return entries;
}

void Trainer::run_step(Step& step, bool all) {
  const Hash structure = session_.tape().graph().hash();
  const bool as_before = structure == last_step_;
  last_step_ = structure;
  if (show_ && !shown() && all && as_before && settled_steps_ >= kStepsBeforeShown) {
    const RunTimes times = step.measure();
    measured_ = view_of(session_, step, times);
    measured_->title = config_.name;
    for (const Entry& entry : entries_) measured_->jobs.push_back(entry.result.name);
    for (NodeId node = 0; node < step.graph().node_count(); ++node) {
      measured_->owners.push_back(owners_[static_cast<std::size_t>(step.recorded_node(node))]);
    }
    return;
  }
  step.run();
  settled_steps_ = as_before && !session_.choosing() ? settled_steps_ + 1 : 0;
}

Trainer::Round Trainer::run_round(std::span<Entry* const> entries) {
  const auto start = std::chrono::steady_clock::now();
  Round round{};
  const bool shown_before = shown();
  std::exception_ptr fault;  // in this step or in the one before
  {
    Step step = session_.step();
    owners_.clear();
    for (Entry* entry : entries) {
      attempt(*entry, [&] {
        try {
          round.steps += entry->job->record(entry->steps_per_round, requests_);
        } catch (...) {
          entry->job->collect(false);
          throw;
        }
      });
      owners_.resize(static_cast<std::size_t>(session_.tape().graph().node_count()), static_cast<int>(row(*entry)));
    }
    try {
      if (running().empty()) return round;
      run_step(step, entries.size() == running().size());
      round.arena_bytes = static_cast<std::size_t>(step.plan().arena_bytes);
      for (Entry* entry : entries) attempt(*entry, [&] { entry->job->load_ahead(entry->steps_per_round); });
      std::vector<Array> loaded;
      for (const Entry* entry : entries) {
        if (entry->job != nullptr) entry->job->list_loaded(loaded);
      }
      session_.prefetch(loaded);
      // Losses are read one round late, unless something is due before the next round.
      const bool due = timing_ || std::ranges::any_of(entries, [](Entry* e) {
                         return e->job != nullptr && (e->job->epoch_ended() || e->job->save_due());
                       });
      if (due) session_.synchronize();
      collect(due);
    } catch (const std::exception&) {
      fault = std::current_exception();
    }
  }
  if (fault != nullptr) {
    repeat_alone(entries, fault);
    return round;
  }
  save(false);
  round.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  bool news = shown() && !shown_before;
  for (Entry* entry : entries) news |= end_epoch(*entry);
  if (news) show();
  return round;
}

void Trainer::repeat_alone(std::span<Entry* const> entries, const std::exception_ptr& fault) {
  bool found = entries.size() == 1;
  try {
    if (!found) std::rethrow_exception(fault);
  } catch (const DeviceError&) {  // the joint plan's error, or the device's
    found = true;
  } catch (const std::exception& error) {
    progress_->print(message("a step of several jobs failed: ", error.what(),
                             "; each job repeats its steps since its last checkpoint alone"));
    std::vector<std::int64_t> steps;
    for (Entry* entry : entries) {
      steps.push_back(entry->job == nullptr ? 0 : entry->job->recorded());
      attempt(*entry, [&] {
        entry->job = std::make_unique<Job>(entry->config.training, session_, datasets_);
        entry->job->open(output(*entry));
      });
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Entry* const entry = entries[i];
      end_epoch(*entry);
      while (entry->job != nullptr && entry->job->recorded() < steps[i] && !stopped()) {
        run_round(entries.subspan(i, 1));
      }
      attempt(*entry, [&] { entry->job->collect(true); });
      found |= entry->result.failure != nullptr;
    }
    if (found || stopped()) return;
  }
  for (Entry* entry : entries) attempt(*entry, [&] { std::rethrow_exception(fault); });
}

void Trainer::explain_divergence() {
  for (Entry& entry : entries_) {
    TrainResult& result = entry.result;
    if (stopped() || result.diverged_at == 0 || session_.parallel().ranks() > 1) continue;
    std::string cause;
    try {
      progress_->print(row(entry), message("repeats the training up to step ", result.diverged_at,
                                           " to find out where its values cease to be finite"));
      Job job(entry.config.training, session_, datasets_);
      cause = job.find_first_not_finite(output(entry), result.diverged_at, [this] { return stopped(); });
    } catch (const std::exception& error) {
      cause = message("where its values cease to be finite cannot be found: ", error.what());
    }
    if (cause.empty()) continue;
    entry.folder->append_last_words(Json{{"event", "cause"}, {"message", cause}});
    result.failure = std::make_exception_ptr(Error(message(result.failure_text(), "; ", cause)));
  }
}

bool Trainer::take_requests() {
  bool saves = false;
  for (Entry* entry : running()) {
    const Requests arrived = entry->job->take_requests();
    stops_ |= arrived.stop;
    saves |= arrived.save;
  }
  return saves;
}

void Trainer::save(bool all) {
  for (Entry& entry : entries_) {
    attempt(entry, [&] {
      if (!all && !entry.job->save_due()) return;
      entry.job->collect(true);
      entry.job->save();
    });
  }
}

void Trainer::collect(bool all) {
  for (Entry& entry : entries_) {
    attempt(entry, [&] { entry.job->collect(all); });
  }
}

void Trainer::show() {
  if (!shown()) return;
  measured_->losses.clear();
  for (const Entry& entry : entries_) {
    measured_->losses.push_back(entry.job != nullptr ? entry.job->result().losses : entry.result.losses);
  }
  show_(*measured_);
}

bool Trainer::end_epoch(Entry& entry) {
  if (entry.job == nullptr || !entry.job->epoch_ended()) return false;
  attempt(entry, [&] {
    const bool complete = entry.job->end_epoch([this] { return stopped(); });
    if (!complete || !entry.job->finished()) return;
    entry.job->finish_saving();
    end(entry);
  });
  return true;
}

template <class Action>
void Trainer::attempt(Entry& entry, const Action& action) {
  if (entry.job == nullptr) return;
  try {
    return action();
  } catch (const CommunicationError& error) {
    const std::string told = message(error.what(), "; ", plural(entry.job->result().steps, "step"), " had finished");
    entry.result.failure = std::make_exception_ptr(CommunicationError(told));
  } catch (const std::exception&) {
    entry.result.failure = std::current_exception();
  }
  end(entry);
  fail(entry);
}

void Trainer::end(Entry& entry) {
  const TrainResult before = std::move(entry.result);
  entry.result = entry.job->result();
  entry.result.failure = before.failure;
  entry.result.folder = before.folder;
  entry.job.reset();
  progress_->finish(row(entry));
}

void Trainer::fail(Entry& entry) {
  const std::string reason = entry.result.failure_text();
  abandon_ranks(session_.parallel(), message("failed after step ", entry.result.steps, ": ", reason));
  Json record{{"event", "failed"}, {"step", entry.result.steps}, {"message", reason}};
  entry.folder->append_last_words(record);
  if (!config_.together) return;
  progress_->print(row(entry), "failed: " + reason);
  record["job"] = entry.result.name;
  folder_->append_last_words(record);
}

Evaluation evaluate_checkpoint(TrainConfig config, const std::filesystem::path& checkpoint, Split split,
                               const std::function<void(const std::string&)>& warn) {
  DatasetPool datasets;
  compute_normalization(config, datasets);
  const auto dataset = datasets.get(config, split);
  Session session(config.session);
  const auto model = make_model(config.model, session, *dataset);
  const auto tensors = model->tensors();
  const SafeTensors file(checkpoint);
  check_classes(file, *dataset);
  load_trained(file, session, tensors);
  if (warn) {
    const std::string problem = held_out_otherwise(file, config.data, *datasets.get(config, Split::val));
    if (!problem.empty()) warn(problem);
  }
  check_finite(session, tensors, checkpoint);
  Loader loader(dataset, loader_options(config, split));
  Inference inference(*model);
  const Evaluation result = evaluate(session, inference, loader, config.dtype);
  BRAID_CHECK(std::isfinite(result.loss), Error, checkpoint.string(), ": the loss is ", unsigned_nan(result.loss),
              ", although all tensors are finite: the model's outputs overflow ", config.dtype);
  return result;
}

}  // namespace braid
