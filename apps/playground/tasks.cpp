#include "apps/playground/tasks.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "scheduler/check/simulator.h"
#include "scheduler/memory/memory_limit.h"
#include "scheduler/policies/timeline.h"
#include "tests/scheduler/least_makespan.h"

namespace braid {
namespace {

using namespace scheduler;

constexpr std::size_t kMostTasks = 64, kLongestName = 40, kMostCommands = 4096;
constexpr double kMostMicroseconds = 1e9;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 32;

struct TaskAttributes {
  std::string name;
  std::int64_t bytes;
  static constexpr std::string_view kNames[] = {"name", "bytes"};
};

/// Has the name of its task, so that the verifier calls it by that.
class TaskOp final : public OpWith<TaskOp, TaskAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return attributes().name; }
  void infer(std::span<const ValueDesc>, std::vector<OutputDesc>& outputs) const override {
    outputs.push_back({.dtype = DType::u8, .shape = Shape{attributes().bytes}});
  }
};

struct Tasks {
  std::vector<std::string> names;
  Problem problem;
  std::int64_t limit = 0;  // 0: none

  NodeId find(const JsonPart& name, std::string_view expected = "must be the name of a task") const {
    const auto found = std::ranges::find(names, name.text());
    if (found == names.end()) name.fail(expected);
    return static_cast<NodeId>(found - names.begin());
  }
  bool fits(const Plan& plan) const { return limit == 0 || plan.arena_bytes <= limit; }
};

double duration_from(const JsonPart& part) {
  const double microseconds = part.number(0);
  if (microseconds > kMostMicroseconds) part.fail(message("must be at most ", kMostMicroseconds, " microseconds"));
  return microseconds;
}

Tasks tasks_from(const JsonPart& json) {
  Tasks tasks;
  const int streams = static_cast<int>(json["streams"].integer(1, 16));
  const int capacity = static_cast<int>(json["capacity"].integer(1, 64));
  tasks.limit = json.integer_or("limit", 0, 0, kMostBytes);
  const std::vector<JsonPart> list = json["tasks"].list();
  if (list.empty() || list.size() > kMostTasks) json["tasks"].fail(message("must have 1 to ", kMostTasks, " tasks"));
  StepGraph graph;
  Costs costs;
  for (const JsonPart& task : list) {
    std::string name = task["name"].text();
    if (name.empty() || name.size() > kLongestName) task["name"].fail("must be a name of 1 to 40 bytes");
    if (std::ranges::find(tasks.names, name) != tasks.names.end()) task["name"].fail("is the name of two tasks");
    std::vector<ValueId> inputs;  // value i is the result of task i
    if (task.json.contains("after")) {
      for (const JsonPart& before : task["after"].list()) {
        inputs.push_back(tasks.find(before, "must be the name of a task that is listed before this one"));
      }
    }
    graph.add_node(std::make_shared<TaskOp>(name, task.integer_or("bytes", 0, 0, kMostBytes)), inputs);
    const Cost cost{.width = static_cast<int>(task.integer_or("width", 1, 1, capacity)),
                    .duration = duration_from(task["microseconds"])};
    costs.add({&cost, 1});
    tasks.names.push_back(std::move(name));
  }
  const Edges edges = graph.edges();
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    if (edges.successors(node).empty()) graph.keep(graph.output(node, 0));
  }
  tasks.problem = make_problem(std::move(graph), std::move(costs), streams, capacity);
  return tasks;
}

Schedule schedule_from(const JsonPart& json, const Tasks& tasks) {
  Timeline timeline(tasks.problem);
  std::vector<bool> placed(tasks.names.size());
  for (const JsonPart& entry : json.list()) {
    const NodeId task = tasks.find(entry["task"]);
    if (placed[task]) entry["task"].fail("is placed twice");
    for (const NodeId before : tasks.problem.edges.predecessors(task)) {
      if (!placed[before]) entry["task"].fail(message("must come after '", tasks.names[before], "', which it needs"));
    }
    timeline.place(task, entry["stream"].index(tasks.problem.streams));
    placed[task] = true;
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (!placed[i]) json.fail(message("does not place '", tasks.names[i], "'"));
  }
  return std::move(timeline).finish();
}

/// Leaves out waits that only save memory: readers look for the others.
Plan plan_of(const Problem& problem, const Schedule& schedule, std::string_view name) {
  return plan_schedule(problem, schedule, name, false);
}

Plan base_plan(const JsonPart& request, const Tasks& tasks) {
  if (!request.json.contains("policy"))
    return plan_of(tasks.problem, schedule_from(request["schedule"], tasks), "by hand");
  const std::string name = request["policy"].text();
  const Policy policy = find_policy(name);
  return tasks.limit == 0 ? plan_of(tasks.problem, policy(tasks.problem), name)
                          : plan_within(tasks.problem, policy, name, tasks.limit).plan;
}

Command command_from(const JsonPart& json, std::int64_t tasks, std::int64_t events) {
  if (json.json.contains("launch")) return {Command::Kind::launch, json["launch"].index(tasks)};
  if (json.json.contains("record")) return {Command::Kind::record, json["record"].index(events)};
  return {Command::Kind::wait, json["wait"].index(events)};
}

void edit_plan(const JsonPart& json, Plan& plan) {
  const auto tasks = static_cast<std::int64_t>(plan.placements.size());
  plan.commands.events = static_cast<std::int32_t>(json["events"].integer(0, kMostCommands));
  json["streams"].check_size(plan.commands.streams.size());
  std::size_t commands = 0;
  for (std::size_t s = 0; s < plan.commands.streams.size(); ++s) {
    plan.commands.streams[s].clear();
    for (const JsonPart& command : json["streams"].list()[s].list()) {
      if (++commands > kMostCommands) json["streams"].fail(message("must have at most ", kMostCommands, " commands"));
      plan.commands.streams[s].push_back(command_from(command, tasks, plan.commands.events));
    }
  }
  json["offsets"].check_size(plan.offsets.size());
  for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
    plan.offsets[i] = json["offsets"].list()[i].integer(0, 2 * kMostBytes * static_cast<std::int64_t>(kMostTasks));
  }
}

/// The best of all orders of tasks on all streams, with the arena within the limit.
class BestWithinLimit {
 public:
  explicit BestWithinLimit(const Tasks& tasks)
      : tasks_(tasks), levels_(bottom_levels(tasks.problem.edges, tasks.problem.costs)) {}

  /// Nothing if there are too many to try, or none keeps to the limit.
  std::optional<Schedule> find() {
    search(Timeline(tasks_.problem), 0);
    return looks_ < kMostLooks ? best_ : std::nullopt;
  }

 private:
  static constexpr int kMostLooks = 200'000;

  void search(const Timeline& timeline, std::size_t placed) {
    if (placed == tasks_.names.size()) {
      Schedule schedule = Timeline(timeline).finish();
      if (schedule.makespan < best_makespan() && tasks_.fits(plan_of(tasks_.problem, schedule, "optimum")))
        best_ = schedule;
      return;
    }
    for (NodeId task = 0; task < std::ssize(levels_); ++task) {
      const auto before = tasks_.problem.edges.predecessors(task);
      if (is_placed(task) || !std::ranges::all_of(before, [&](NodeId node) { return is_placed(node); })) continue;
      for (int stream = 0; stream < tasks_.problem.streams && ++looks_ < kMostLooks; ++stream) {
        Timeline next = timeline;
        next.place(task, stream);
        if (next.placement(task).start + levels_[task] >= best_makespan()) continue;
        placed_ |= bit(task);
        search(next, placed + 1);
        placed_ &= ~bit(task);
        if (timeline.last(stream) == kNoNode) break;  // other streams without tasks are alike
      }
    }
  }
  double best_makespan() const { return best_ ? best_->makespan : std::numeric_limits<double>::infinity(); }
  static std::uint64_t bit(NodeId task) { return std::uint64_t{1} << task; }
  bool is_placed(NodeId task) const { return (placed_ & bit(task)) != 0; }

  const Tasks& tasks_;
  std::vector<double> levels_;
  std::uint64_t placed_ = 0;
  std::optional<Schedule> best_;
  int looks_ = 0;
};

/// Nothing if the graph is too large.
std::optional<Schedule> optimum(const Tasks& tasks) {
  if (tasks.limit > 0) return BestWithinLimit(tasks).find();
  if (tasks.names.size() > testing::LeastMakespan::kMostNodes) return std::nullopt;
  testing::LeastMakespan search(tasks.problem);
  search.find();
  // Each task is placed by its start in the best schedule, so none starts later than there.
  std::vector<NodeId> order(tasks.names.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](NodeId task) { return search.starts()[task]; });
  Timeline timeline(tasks.problem);
  for (const NodeId task : order) timeline.place(task, timeline.first_free());
  return std::move(timeline).finish();
}

}  // namespace

std::string plan_tasks(const Json& json) {
  const JsonPart request{json};
  const Tasks tasks = tasks_from(request["graph"]);
  Plan plan = base_plan(request, tasks);
  if (json.contains("edit")) edit_plan(request["edit"], plan);
  Problem problem = tasks.problem;
  if (json.contains("microseconds")) {
    request["microseconds"].check_size(tasks.names.size());
    for (NodeId task = 0; const JsonPart& part : request["microseconds"].list()) {
      problem.costs.set_duration(task++, 0, duration_from(part));
    }
  }

  Json answer = {{"faults", verify_plan(problem.graph, problem.costs, plan)}, {"fits", tasks.fits(plan)}};
  try {
    const Simulation simulation = simulate(problem, plan);
    Json runs = Json::array();
    for (const auto& [start, finish] : simulation.runs) runs.push_back({{"start", start}, {"finish", finish}});
    answer["runs"] = runs;
    answer["makespan"] = simulation.makespan;
  } catch (const PlanError&) {
    // It deadlocks, which is among the faults.
  }
  answer["plan"] = parse_json(to_json(plan));
  if (json.contains("optimum") && request["optimum"].flag()) {
    const std::optional<Schedule> best = optimum(tasks);
    answer["optimum"] = best ? Json(best->makespan) : Json();
    if (best) {
      Json entries = Json::array();
      for (const NodeId task : best->order) {
        entries.push_back({{"task", tasks.names[task]}, {"stream", best->placements[task].stream}});
      }
      answer["best"] = entries;
    }
  }
  return answer.dump();
}

}  // namespace braid
