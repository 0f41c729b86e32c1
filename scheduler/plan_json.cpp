// Plans as JSON, to look at, to compare and to keep. Reading trusts nothing: every type and range is checked, so that
// what comes out can be indexed without further checks. Whether it is safe for a given graph is the verifier's
// business.

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "scheduler/plan.h"

namespace braid {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxLong = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view kKinds[] = {"launch", "record", "wait"};  // by Command::Kind

/// A part of the text and where it is, as "streams[1][7].wait".
struct Part {
  const Json& json;
  std::string path;

  Part operator[](const char* key) const {
    BRAID_CHECK(json.is_object() && json.contains(key), PlanError, "[plan json] '", path, "' has no key '", key, "'");
    return {json[key], path.empty() ? key : path + "." + key};
  }
  std::vector<Part> list() const {
    BRAID_CHECK(json.is_array(), PlanError, "[plan json] '", path, "' is not a list");
    std::vector<Part> parts;
    for (const Json& element : json) parts.push_back({element, message(path, "[", parts.size(), "]")});
    return parts;
  }
  void check_size(std::size_t size) const {
    BRAID_CHECK(json.size() == size, PlanError, "[plan json] '", path, "' has ", json.size(), " entries instead of ",
                size);
  }
  std::int64_t integer(std::int64_t low, std::int64_t high) const {
    const bool fits = json.is_number_integer() && !(json.is_number_unsigned() && json.get<std::uint64_t>() > kMaxLong);
    const std::int64_t number = fits ? json.get<std::int64_t>() : 0;
    BRAID_CHECK(fits && number >= low && number <= high, PlanError, "[plan json] '", path, "' must be an integer from ",
                low, " to ", high, ", got ", json.dump());
    return number;
  }
  std::int32_t index(std::int64_t size) const { return static_cast<std::int32_t>(integer(0, size - 1)); }
  double microseconds() const {
    BRAID_CHECK(json.is_number() && std::isfinite(json.get<double>()) && json.get<double>() >= 0, PlanError,
                "[plan json] '", path, "' must be a time of at least 0, got ", json.dump());
    return json.get<double>();
  }
  std::string text() const {
    BRAID_CHECK(json.is_string(), PlanError, "[plan json] '", path, "' must be a string, got ", json.dump());
    return json.get<std::string>();
  }
};

Command command_from(const Part& part, std::int64_t nodes, std::int64_t events) {
  part.check_size(1);
  for (std::uint8_t kind = 0; kind < std::size(kKinds); ++kind) {
    const char* key = kKinds[kind].data();
    if (!part.json.is_object() || !part.json.contains(key)) continue;
    return {static_cast<Command::Kind>(kind), part[key].index(kind == 0 ? nodes : events)};
  }
  throw PlanError(message("[plan json] '", part.path, "' is no command: ", part.json.dump()));
}

Plan plan_from(const Part& json) {
  json.check_size(12);
  Plan plan;
  plan.policy = json["policy"].text();
  plan.makespan = json["makespan"].microseconds();
  const Part bound = json["bound"];
  bound.check_size(3);
  plan.bound = {bound["depth"].microseconds(), bound["work"].microseconds(), bound["bound"].microseconds()};
  plan.events = static_cast<std::int32_t>(json["events"].integer(0, kMaxInt));
  plan.arena_bytes = json["arena_bytes"].integer(0, kMaxLong);
  plan.naive_bytes = json["naive_bytes"].integer(0, kMaxLong);
  plan.live_bytes = json["live_bytes"].integer(0, kMaxLong);

  const auto streams = static_cast<std::int64_t>(json["streams"].list().size());
  BRAID_CHECK(streams >= 1, PlanError, "[plan json] a plan has at least one stream");
  for (const Part& placement : json["placements"].list()) {
    placement.check_size(4);
    plan.placements.push_back({.stream = placement["stream"].index(streams),
                               .choice = placement["choice"].index(kMaxInt),
                               .start = placement["start"].microseconds(),
                               .finish = placement["finish"].microseconds()});
  }
  const auto nodes = static_cast<std::int64_t>(plan.placements.size());
  for (const Part& stream : json["streams"].list()) {
    auto& commands = plan.streams.emplace_back();
    for (const Part& command : stream.list()) commands.push_back(command_from(command, nodes, plan.events));
  }
  for (const Part& edge : json["extra_edges"].list()) {
    const std::vector<Part> ends = edge.list();
    edge.check_size(2);
    plan.extra_edges.emplace_back(ends[0].index(nodes), ends[1].index(nodes));
  }
  for (const Part& offset : json["offsets"].list()) plan.offsets.push_back(offset.integer(-1, plan.arena_bytes));
  json["workspaces"].check_size(plan.streams.size());
  for (const Part& slice : json["workspaces"].list()) {
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
    placements.push_back({{"stream", p.stream}, {"choice", p.choice}, {"start", p.start}, {"finish", p.finish}});
  }
  Json streams = Json::array();
  for (const auto& commands : plan.streams) {
    Json& stream = streams.emplace_back(Json::array());
    for (const Command& command : commands) {
      stream.push_back({{std::string(kKinds[static_cast<std::size_t>(command.kind)]), command.index}});
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
              {"events", plan.events},
              {"streams", streams},
              {"extra_edges", plan.extra_edges},
              {"placements", placements}}
      .dump();
}

Plan plan_from_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    return plan_from({json, ""});
  } catch (const nlohmann::json::exception& error) {
    throw PlanError(message("[plan json] ", error.what()));
  }
}

}  // namespace braid
