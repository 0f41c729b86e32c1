#include "train/pathnet/report.h"

#include <iomanip>

#include "core/base/text_stream.h"
#include "core/text/json.h"
#include "core/text/text.h"

namespace braid {

namespace {

/// One of a seed's evolutions.
struct PhaseColumn {
  const char* key;    // in JSON
  const char* title;  // in text
  const TaskRun* (*of)(const SeedRun& run);
};

/// The columns for the evolutions of the config.
std::vector<PhaseColumn> phases(const PathNetConfig& config) {
  std::vector<PhaseColumn> list{{"a", "A", [](const SeedRun& run) { return &run.a; }},
                                {"b", "B after A", [](const SeedRun& run) { return &run.b; }},
                                {"control", "B from scratch", [](const SeedRun& run) { return &run.control; }}};
  if (config.frozen_path == FrozenPath::always_active) {
    list.push_back({"untrained", "B, path untrained", [](const SeedRun& run) { return &*run.untrained; }});
  }
  return list;
}

/// ">" if the task was not learned.
const char* more(const TaskRun& run) { return run.learned ? "" : ">"; }

/// "37", or ">500" if the task was not learned.
std::string count(const TaskRun& run) { return message(more(run), run.generations); }

double mean_generations(std::span<const SeedRun> runs, const PhaseColumn& phase) {
  double sum = 0;
  for (const SeedRun& run : runs) sum += phase.of(run)->generations;
  return sum / static_cast<double>(runs.size());
}

Json grid_json(const models::PathGrid& grid) {
  return {{"layers", grid.layers}, {"modules", grid.modules}, {"active", grid.active}};
}

Json run_json(const TaskRun& run) {
  return {{"learned", run.learned},   {"generations", run.generations},
          {"accuracy", run.accuracy}, {"path", run.path.layers},
          {"steps", run.steps},       {"plans", run.plans},
          {"seconds", run.seconds}};
}

Json population_json(const TaskRun& run) {
  Json population = Json::array();
  for (const models::Genotype& genotype : run.population) population.push_back(genotype.layers);
  return {{"path", run.path.layers}, {"population", population}};
}

}  // namespace

std::string summary(const SeedRun& run) {
  return message("seed ", run.seed, ": task A learned in ", more(run.a), plural(run.a.generations, "generation"),
                 ", task B in ", count(run.b), ", from scratch in ", count(run.control));
}

std::string table(const PathNetConfig& config, std::span<const SeedRun> runs) {
  const std::vector<PhaseColumn> list = phases(config);
  TextStream out;
  out << "generations until a path had " << 100 * config.threshold << " % of its training images right\n"
      << std::fixed << std::setprecision(1) << std::setw(6) << "seed";
  for (const PhaseColumn& phase : list) out << std::setw(19) << phase.title;
  out << std::setw(19) << "modules reused" << '\n';
  bool all_learned = true;
  for (const SeedRun& run : runs) {
    out << std::setw(6) << run.seed;
    for (const PhaseColumn& phase : list) {
      out << std::setw(19) << count(*phase.of(run));
      all_learned = all_learned && phase.of(run)->learned;
    }
    const int reused = shared_modules(run.a.path, run.b.path), all = shared_modules(run.b.path, run.b.path);
    out << std::setw(19) << message(reused, " of ", all) << '\n';
  }
  out << std::setw(6) << "mean";
  for (const PhaseColumn& phase : list) out << std::setw(19) << mean_generations(runs, phase);
  out << std::setprecision(2)
      << "\nspeed-up by task A: " << mean_generations(runs, list[2]) / mean_generations(runs, list[1]);
  if (list.size() > 3) {
    out << "; over the same path untrained: " << mean_generations(runs, list[3]) / mean_generations(runs, list[1]);
  }
  if (!all_learned) out << "\n(a task that was not learned counts with the generations it had)";
  return out.str();
}

std::string report_json(const PathNetConfig& config, std::span<const SeedRun> runs) {
  const std::vector<PhaseColumn> list = phases(config);
  Json report{{"threshold", config.threshold},
              {"max_generations", config.max_generations},
              {"tasks", {{"a", config.task_a}, {"b", config.task_b}}},
              {"grid", grid_json(config.net.grid)},
              {"seeds", Json::array()}};
  for (const PhaseColumn& phase : list) report["mean_generations"][phase.key] = mean_generations(runs, phase);
  for (std::size_t i = 2; i < list.size(); ++i) {
    report["speed_up_over"][list[i].key] = mean_generations(runs, list[i]) / mean_generations(runs, list[1]);
  }
  for (const SeedRun& run : runs) {
    Json entry{{"seed", run.seed}, {"shared_modules", shared_modules(run.a.path, run.b.path)}};
    for (const PhaseColumn& phase : list) entry[phase.key] = run_json(*phase.of(run));
    report["seeds"].push_back(entry);
  }
  return report.dump_sorted(2) + '\n';
}

std::string genotypes_json(const PathNetConfig& config, std::span<const SeedRun> runs) {
  Json list = Json::array();
  for (const SeedRun& run : runs) {
    Json entry{{"seed", run.seed}};
    for (const PhaseColumn& phase : phases(config)) entry[phase.key] = population_json(*phase.of(run));
    list.push_back(entry);
  }
  return Json{{"grid", grid_json(config.net.grid)}, {"seeds", list}}.dump_sorted() + '\n';
}

}  // namespace braid
