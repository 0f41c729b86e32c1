#include "train/pathnet/checkpoint.h"

#include "core/text/json.h"

namespace braid {

namespace {

using models::Genotype;
using models::PathGrid;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

Json genotypes_json(const std::vector<Genotype>& genotypes) {
  Json list = Json::array();
  for (const Genotype& genotype : genotypes) list.push_back(genotype.layers);
  return list;
}

Json task_json(const TaskRun& run) {
  return {{"learned", run.learned ? 1 : 0},
          {"generations", run.generations},
          {"accuracy", run.accuracy},
          {"path", run.path.layers},
          {"population", genotypes_json(run.population)},
          {"steps", run.steps},
          {"plans", run.plans},
          {"seconds", run.seconds}};
}

Json winner_json(const Evolution::Winner& winner) {
  return {{"path", winner.genotype.layers}, {"fitness", winner.fitness}, {"generation", winner.generation}};
}

Genotype read_genotype(const JsonPart& part, const PathGrid& grid) {
  Genotype genotype;
  part.check_size(static_cast<std::size_t>(grid.layers));
  for (const JsonPart& layer : part.list()) {
    layer.check_size(static_cast<std::size_t>(grid.active));
    std::vector<int>& modules = genotype.layers.emplace_back();
    for (const JsonPart& module : layer.list()) modules.push_back(module.index(grid.modules));
  }
  return genotype;
}

std::vector<Genotype> read_genotypes(const JsonPart& part, const PathGrid& grid) {
  std::vector<Genotype> list;
  for (const JsonPart& genotype : part.list()) list.push_back(read_genotype(genotype, grid));
  return list;
}

int read_generations(const JsonPart& part) {
  return static_cast<int>(part.integer(0, std::numeric_limits<std::int32_t>::max()));
}

TaskRun read_task(const JsonPart& part, const PathGrid& grid) {
  return {.learned = part["learned"].integer(0, 1) == 1,
          .generations = read_generations(part["generations"]),
          .accuracy = part["accuracy"].number(0),
          .path = read_genotype(part["path"], grid),
          .population = read_genotypes(part["population"], grid),
          .steps = part["steps"].integer(0, kMost),
          .plans = part["plans"].integer(0, kMost),
          .seconds = part["seconds"].number(0)};
}

Evolution::Winner read_winner(const JsonPart& part, const PathGrid& grid) {
  return {.genotype = read_genotype(part["path"], grid),
          .fitness = part["fitness"].number(0),
          .generation = read_generations(part["generation"])};
}

}  // namespace

std::int64_t PathNetState::generations() const {
  std::int64_t sum = current.generations;
  for (const TaskRun& run : finished) sum += run.generations;
  return sum;
}

std::size_t evolutions_of_seed(const PathNetConfig& config) {
  return config.frozen_path == FrozenPath::always_active ? 4 : 3;
}

std::string to_json(const PathNetState& state) {
  Json finished = Json::array(), batches = Json::array();
  for (const TaskRun& run : state.finished) finished.push_back(task_json(run));
  for (const auto& [epoch, batch] : state.batches) batches.push_back(Json::array({epoch, batch}));
  return Json{{"finished", finished},
              {"current", task_json(state.current)},
              {"last", winner_json(state.evolution.last)},
              {"best", winner_json(state.evolution.best)},
              {"drawn", state.evolution.drawn},
              {"batches", batches},
              {"metrics_bytes", state.metrics_bytes}}
      .dump_sorted();
}

PathNetState read_pathnet_state(const std::string& text, const PathNetConfig& config) {
  const PathGrid& grid = config.net.grid;
  const Json parsed = parse_json(text);
  const JsonPart whole{parsed, "evolution"};
  PathNetState state;
  const auto evolutions = config.seeds.size() * evolutions_of_seed(config);
  for (const JsonPart& run : whole["finished"].list()) state.finished.push_back(read_task(run, grid));
  if (state.finished.size() >= evolutions) whole["finished"].fail(message("fewer than ", evolutions, " evolutions"));
  state.current = read_task(whole["current"], grid);
  whole["current"]["population"].check_size(static_cast<std::size_t>(config.population));
  state.evolution = {.population = state.current.population,
                     .last = read_winner(whole["last"], grid),
                     .best = read_winner(whole["best"], grid),
                     .drawn = static_cast<std::uint64_t>(whole["drawn"].integer(0, kMost))};
  whole["batches"].check_size(static_cast<std::size_t>(config.tournament.candidates));
  for (const JsonPart& batch : whole["batches"].list()) {
    batch.check_size(2);
    state.batches.push_back({.epoch = batch.list()[0].integer(0, kMost), .batch = batch.list()[1].integer(0, kMost)});
  }
  state.metrics_bytes = static_cast<std::uint64_t>(whole["metrics_bytes"].integer(0, kMost));
  return state;
}

}  // namespace braid
