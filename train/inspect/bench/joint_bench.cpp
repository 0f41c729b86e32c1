#include "train/inspect/bench/joint_bench.h"

#include <chrono>
#include <sstream>

#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "train/inspect/bench/bench.h"
#include "train/report/plan/trace.h"
#include "train/run/balance.h"

namespace braid {

JointBench::JointBench(const RunConfig& config) : session_(config.jobs.front().training.session) {
  DatasetPool datasets;
  for (const JobConfig& job : config.jobs) {
    Entry& entry = entries_.emplace_back();
    entry.config = job;
    const auto dataset = datasets.get(job.training, Split::train);
    entry.batch = first_batch(dataset, job.training);
    entry.learner = std::make_unique<Learner>(job.training, session_, *dataset);
    entry.times.name = job.training.name;
    entry.times.batch_size = entry.batch.size();
  }
}

double JointBench::step(std::span<Entry> entries, bool balanced) {
  const auto start = std::chrono::steady_clock::now();
  Step step = session_.step();
  std::vector<Tensor> losses;
  for (Entry& entry : entries) {
    for (std::int64_t i = 0; i < (balanced ? entry.times.steps_per_round : 1); ++i) {
      losses.push_back(entry.learner->record(entry.batch).loss);
    }
  }
  step.run();
  for (const Tensor& loss : losses) loss.item();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const scheduler::Plan& plan = step.plan();
  const std::size_t streams = plan.commands.used_streams();
  arena_bytes_ = static_cast<std::size_t>(plan.arena_bytes);
  plan_ = message(plan.policy, " on ", plural(streams, "stream"));
  return seconds;
}

void JointBench::settle(std::span<Entry> entries, bool balanced) {
  constexpr int kWarm = 5;
  do {
    step(entries, balanced);
  } while (session_.choosing());
  for (int i = 0; i < kWarm; ++i) step(entries, balanced);
}

void JointBench::warm_up() {
  constexpr int kMeasured = 7;
  std::vector<double> seconds;
  std::vector<int> fixed;
  for (Entry& entry : entries_) {
    settle({&entry, 1}, false);
    entry.times.alone_arena_bytes = arena_bytes_;
    std::vector<double> measured;
    for (int i = 0; i < kMeasured; ++i) measured.push_back(step({&entry, 1}, false));
    seconds.push_back(median(measured));
    fixed.push_back(entry.config.steps_per_round);
  }
  const std::vector<std::int64_t> balanced = balanced_steps(seconds, fixed);
  for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].times.steps_per_round = balanced[i];
  settle(entries_, true);
  choice_report_ = session_.choice_report();
}

scheduler::PlanView JointBench::measured_step() {
  settle(entries_, false);
  Step step = session_.step();
  std::vector<int> owners;  // per recorded node
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].learner->record(entries_[i].batch);
    owners.resize(static_cast<std::size_t>(session_.tape().graph().node_count()), static_cast<int>(i));
  }
  const RunTimes times = step.measure();
  scheduler::PlanView view = view_of(session_, step, times);
  for (const Entry& entry : entries_) view.jobs.push_back(entry.times.name);
  for (NodeId node = 0; node < step.graph().node_count(); ++node) {
    view.owners.push_back(owners[static_cast<std::size_t>(step.recorded_node(node))]);
  }
  return view;
}

JointBench::Times JointBench::run(std::int64_t turns) {
  std::vector<double> together, speedups;
  std::vector<std::vector<double>> alone(entries_.size());
  Times times;
  times.turns = turns;
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    together.push_back(step(entries_, true));
    times.together_arena_bytes = arena_bytes_;
    times.plan = plan_;
    double sum = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      double seconds = 0;
      for (std::int64_t k = 0; k < entries_[i].times.steps_per_round; ++k) seconds += step({&entries_[i], 1}, false);
      alone[i].push_back(seconds);
      sum += seconds;
    }
    speedups.push_back(sum / together.back());
  }
  times.together_seconds = median(together);
  times.speedup = quartiles(std::move(speedups));
  times.choice_report = choice_report_;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    JobTimes job = entries_[i].times;
    const auto images = static_cast<double>(job.batch_size * job.steps_per_round);
    job.alone_seconds = median(alone[i]);
    job.images_per_second_alone = images / job.alone_seconds;
    job.images_per_second_together = images / times.together_seconds;
    times.jobs.push_back(job);
  }
  return times;
}

std::string to_text(const JointBench::Times& times) {
  const Quartiles& speedup = times.speedup;
  std::ostringstream out;
  out << "together           " << fixed(times.together_seconds * 1e3, 2) << " ms per round (median of " << times.turns
      << "), " << times.plan << "\none after another  takes " << fixed(speedup.median, 2)
      << " times as long (quartiles " << fixed(speedup.lower, 2) << " to " << fixed(speedup.upper, 2) << ")\n";
  if (!times.choice_report.empty()) out << "measured           " << times.choice_report << '\n';
  std::size_t sum = 0;
  std::vector<std::vector<std::string>> table{
      {"job", "steps", "batch", "alone, ms", "images/s alone", "together", "arena, MiB"}};
  for (const JointBench::JobTimes& job : times.jobs) {
    table.push_back({job.name, std::to_string(job.steps_per_round), std::to_string(job.batch_size),
                     fixed(job.alone_seconds * 1e3, 2), fixed(job.images_per_second_alone, 0),
                     fixed(job.images_per_second_together, 0), mebibytes(job.alone_arena_bytes)});
    sum += job.alone_arena_bytes;
  }
  out << '\n'
      << text_table(table, "lrrrrrr") << "\narena of the joint plan: " << mebibytes(times.together_arena_bytes)
      << " MiB; sum of the separate plans: " << mebibytes(sum) << " MiB\n";
  return out.str();
}

std::string to_json(const JointBench::Times& times) {
  Json object{{"turns", times.turns},
              {"together_seconds", times.together_seconds},
              {"speedup", times.speedup.median},
              {"speedup_quartiles", Json::array({times.speedup.lower, times.speedup.upper})},
              {"together_arena_bytes", times.together_arena_bytes},
              {"plan", times.plan},
              {"choice_report", times.choice_report},
              {"jobs", Json::array()}};
  for (const JointBench::JobTimes& job : times.jobs) {
    object["jobs"].push_back({{"name", job.name},
                              {"batch_size", job.batch_size},
                              {"steps_per_round", job.steps_per_round},
                              {"alone_seconds", job.alone_seconds},
                              {"alone_arena_bytes", job.alone_arena_bytes},
                              {"images_per_second_alone", job.images_per_second_alone},
                              {"images_per_second_together", job.images_per_second_together}});
  }
  return object.dump_sorted();
}

}  // namespace braid
