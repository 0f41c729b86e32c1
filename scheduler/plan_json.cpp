// Plans as JSON, to inspect, compare and keep. Reading trusts nothing: it checks every type and range, so that the
// verifier, which decides, can index the result without further checks.

#include <limits>

#include "core/text/json.h"
#include "scheduler/plan.h"

namespace braid::scheduler {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxLong = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view kKinds[] = {"launch", "record", "wait"};  // by Command::Kind

Command command_from(const JsonPart& part, std::int64_t nodes, std::int64_t events) {
  part.check_size(1);
  for (std::uint8_t kind = 0; kind < std::size(kKinds); ++kind) {
    const char* key = kKinds[kind].data();
    if (!part.json.contains(key)) continue;
    return {static_cast<Command::Kind>(kind), part[key].index(kind == 0 ? nodes : events)};
  }
  part.fail("must be a command: launch, record or wait");
}

Plan plan_from(const JsonPart& json) {
  json.check_size(12);
  Plan plan;
  plan.policy = json["policy"].text();
  plan.makespan = json["makespan"].number(0);
  const JsonPart bound = json["bound"];
  bound.check_size(3);
  plan.bound = {bound["depth"].number(0), bound["work"].number(0), bound["bound"].number(0)};
  plan.commands.events = static_cast<std::int32_t>(json["events"].integer(0, kMaxInt));
  plan.arena_bytes = json["arena_bytes"].integer(0, kMaxLong);
  plan.naive_bytes = json["naive_bytes"].integer(0, kMaxLong);
  plan.live_bytes = json["live_bytes"].integer(0, kMaxLong);

  const auto streams = static_cast<std::int64_t>(json["streams"].list().size());
  if (streams == 0) json["streams"].fail("must have at least one stream");
  for (const JsonPart& placement : json["placements"].list()) {
    placement.check_size(4);
    plan.placements.push_back({.stream = placement["stream"].index(streams),
                               .implementation = placement["implementation"].index(kMaxInt),
                               .start = placement["start"].number(0),
                               .finish = placement["finish"].number(0)});
  }
  const auto nodes = static_cast<std::int64_t>(plan.placements.size());
  for (const JsonPart& stream : json["streams"].list()) {
    auto& commands = plan.commands.streams.emplace_back();
    for (const JsonPart& command : stream.list())
      commands.push_back(command_from(command, nodes, plan.commands.events));
  }
  for (const JsonPart& edge : json["resource_edges"].list()) {
    const std::vector<JsonPart> ends = edge.list();
    edge.check_size(2);
    plan.resource_edges.emplace_back(ends[0].index(nodes), ends[1].index(nodes));
  }
  for (const JsonPart& offset : json["offsets"].list()) plan.offsets.push_back(offset.integer(-1, plan.arena_bytes));
  json["workspaces"].check_size(plan.commands.streams.size());
  for (const JsonPart& slice : json["workspaces"].list()) {
    slice.check_size(2);
    const std::int64_t offset = slice["offset"].integer(0, plan.arena_bytes);
    plan.workspaces.push_back({offset, slice["bytes"].integer(0, plan.arena_bytes - offset)});
  }
  return plan;
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json placements = Json::array();
  for (const Placement& p : plan.placements) {
    placements.push_back(
        {{"stream", p.stream}, {"implementation", p.implementation}, {"start", p.start}, {"finish", p.finish}});
  }
  Json streams = Json::array();
  for (const auto& commands : plan.commands.streams) {
    Json& stream = streams.push_back(Json::array());
    for (const Command& command : commands) {
      stream.push_back({{kKinds[static_cast<std::size_t>(command.kind)], command.index}});
    }
  }
  Json workspaces = Json::array();
  for (const ArenaSlice& slice : plan.workspaces) {
    workspaces.push_back({{"offset", slice.offset}, {"bytes", slice.bytes}});
  }
  const Json bound = {{"depth", plan.bound.depth}, {"work", plan.bound.work}, {"bound", plan.bound.bound}};
  return Json{{"policy", plan.policy},
              {"makespan", plan.makespan},
              {"bound", bound},
              {"arena_bytes", plan.arena_bytes},
              {"naive_bytes", plan.naive_bytes},
              {"live_bytes", plan.live_bytes},
              {"workspaces", workspaces},
              {"offsets", plan.offsets},
              {"events", plan.commands.events},
              {"streams", streams},
              {"resource_edges", plan.resource_edges},
              {"placements", placements}}
      .dump();
}

Plan plan_from_json(std::string_view text, const Problem& problem) {
  try {
    const Json json = parse_json(text);
    Plan plan = plan_from({json});
    require_safe(problem, plan);
    return plan;
  } catch (const JsonError& error) {
    throw PlanError(message("[plan json] ", error.what()));
  }
}

}  // namespace braid::scheduler
