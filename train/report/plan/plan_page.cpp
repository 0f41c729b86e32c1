#include "train/report/plan/plan_page.h"

#include <algorithm>

#include "core/text/json.h"

namespace braid::scheduler {
namespace {

Json times(std::span<const Run> runs, NodeId node) { return Json::array({runs[node].start, runs[node].finish}); }

Json nodes_of(const PlanView& view, std::span<const double> levels) {
  Json nodes = Json::array();
  for (const NodeId id : view.problem.graph.launched_nodes()) {
    const Node& node = view.problem.graph.node(id);
    const Cost& cost = view.cost(id);
    const auto outputs = view.problem.graph.output_descs(id);
    nodes.push_back({{"id", id},
                     {"op", node.op->name()},
                     {"attributes", message(*node.op).substr(node.op->name().size())},
                     {"layer", view.layer(id)},
                     {"job", view.owner(id)},
                     {"phase", name_of(phase_of(view.problem.graph, id))},
                     {"output", outputs.empty() ? "" : message(outputs[0].shape)},
                     {"stream", view.plan.placements[id].stream},
                     {"width", cost.width},
                     {"implementation", cost.algorithm},
                     {"alone", cost.duration},
                     {"level", levels[id]},
                     {"planned", times(view.simulation.runs, id)}});
    if (!view.measured.empty()) nodes.elements().back()["measured"] = times(view.measured, id);
  }
  return nodes;
}

Json edges_of(const PlanView& view, const Edges& edges) {
  Json list = Json::array();
  for (NodeId id = 0; id < view.problem.graph.node_count(); ++id) {
    for (const NodeId before : edges.predecessors(id)) list.push_back(Json::array({before, id}));
  }
  return list;
}

Json memory_of(const PlanView& view, std::span<const ArenaUse> uses) {
  Json list = Json::array();
  for (const ArenaUse& use : uses) {
    std::string kind = "workspace", label = kind;
    if (use.value != kNoValue) {
      const Value& value = view.problem.graph.value(use.value);
      kind = name_of(value.kind);
      label = message(kind, ' ', name_of(value.desc.dtype), ' ', value.desc.shape);
    }
    list.push_back({{"value", use.value},
                    {"node", use.node},
                    {"kind", kind},
                    {"label", label},
                    {"offset", use.offset},
                    {"bytes", use.bytes},
                    {"time", Json::array({use.begin, use.end})}});
  }
  return list;
}

Json numbers_of(const PlanView& view, std::int64_t peak) {
  const Plan& plan = view.plan;
  // A serial plan may use wider nodes than the plan on the page.
  const Plan one_stream = plan_commands(view.problem, serial(view.problem), "serial");
  std::int64_t workspace = 0;
  for (const ArenaSlice& slice : plan.workspaces) workspace += slice.bytes;
  Json numbers{{"makespan_us", plan.makespan},
               {"simulated_us", view.simulation.makespan},
               {"lower_bound_us", plan.bound.bound},
               {"depth_us", plan.bound.depth},
               {"work_us", plan.bound.work},
               {"one_stream_us", simulate(view.problem, one_stream).makespan},
               {"streams", plan.commands.streams.size()},
               {"used_streams", plan.commands.used_streams()},
               {"links", view.problem.links},
               {"capacity", view.problem.capacity},
               {"waits", plan.commands.waits()},
               {"arena_bytes", plan.arena_bytes},
               {"naive_bytes", plan.naive_bytes},
               {"peak_bytes", peak},
               {"workspace_bytes", workspace}};
  if (!view.measured.empty()) {
    numbers["measured_us"] = std::ranges::max(view.measured, {}, &Run::finish).finish;
  }
  return numbers;
}

Json division_of(const LayerDivision& division) {
  Json groups = Json::array();
  for (const LayerGroup& group : division.groups) {
    Json parts = Json::array();
    for (const auto& [dimension, count] : group.parts) parts.push_back(Json::array({std::string(1, dimension), count}));
    groups.push_back({{"layers", group.layers}, {"parts", parts}, {"computing_us", group.computing}});
  }
  return {{"ranks", division.ranks}, {"has_stages", division.has_stages}, {"groups", groups}};
}

}  // namespace

std::string plan_page_data(const PlanView& view) {
  const Edges edges = view.problem.graph.edges();
  const std::vector<double> levels = bottom_levels(edges, view.problem.costs);
  const std::vector<ArenaUse> uses = arena_uses(view, view.measured.empty() ? view.simulation.runs : view.measured);
  const std::vector<BytesInUse> in_use = bytes_in_use(uses);
  Json waits = Json::array(), steps = Json::array();
  for (const auto& [before, after] : waits_of(view.plan)) waits.push_back(Json::array({before, after}));
  for (const auto& [time, bytes] : in_use) steps.push_back(Json::array({time, bytes}));
  Json data{{"title", view.title},
            {"device", view.device},
            {"policy", view.plan.policy},
            {"unit", view.problem.oversubscribes ? "SM" : "core"},
            {"numbers", numbers_of(view, peak_bytes(in_use))},
            {"jobs", view.jobs},
            {"nodes", nodes_of(view, levels)},
            {"edges", edges_of(view, edges)},
            {"waits", waits},
            {"critical", longest_path(view.problem.graph, edges, levels)},
            {"pace", view.simulation.critical_path},
            {"memory", memory_of(view, uses)},
            {"in_use", steps}};
  if (!view.measured.empty()) {
    data["measured_pace"] = critical_path(view.plan, view.measured);
    data["clock"] = view.clock;
  }
  if (!view.scaling.rows.empty()) {
    data["scaling"] = {{"picture", scaling_picture(view.title, view.scaling)}, {"rows", rows_of(view.scaling)}};
  }
  if (!view.division.groups.empty()) data["division"] = division_of(view.division);
  for (const auto& [losses, val] : view.losses) data["losses"].push_back({{"steps", losses}, {"val", val}});
  return data.dump();
}

std::string filled_page(std::string page, std::string data) {
  // A name must not close the script element that holds the data.
  for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos;) data.replace(at, 1, "\\u003c");
  return page.replace(page.find(kPageData), kPageData.size(), data);
}

std::string plan_page(const PlanView& view) { return filled_page(kPageTemplate, plan_page_data(view)); }

}  // namespace braid::scheduler
