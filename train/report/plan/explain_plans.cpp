// Several plans of the same nodes: how they differ, and all of them as JSON.

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "train/report/plan/reasons.h"

namespace braid::scheduler {
namespace {

/// Per stream: its place in the order of first use.
std::vector<int> first_uses(const PlanView& view) {
  std::vector<std::tuple<double, NodeId, std::size_t>> begins;  // of the first node
  for (std::size_t s = 0; s < view.plan.commands.streams.size(); ++s) {
    std::tuple begin(view.simulation.makespan, kNoNode, s);
    for (const auto& [kind, index] : view.plan.commands.streams[s]) {
      if (kind == Command::Kind::launch) begin = std::min(begin, {view.simulation.runs[index].start, index, s});
    }
    begins.push_back(begin);
  }
  std::ranges::sort(begins);
  std::vector<int> places(begins.size());
  for (int place = 0; place < static_cast<int>(begins.size()); ++place) places[std::get<2>(begins[place])] = place;
  return places;
}

/// What a plan does with a node, and why if that is known.
std::string doing(const Explanation& explanation, NodeId node) {
  const PlanView& view = explanation.view;
  const Reasons reasons(explanation);
  std::string text = message("at ", microseconds(view.simulation.runs[node].start), " on ",
                             reasons.units(view.cost(node).width), ", ", reasons.stream_of(node));
  if (reasons.shown() == nullptr || !reasons.shows_the_kept()) return text;
  const std::vector<ScheduleLog::Pick>& picks = reasons.shown()->picks;
  for (std::size_t i = 0; i < picks.size(); ++i) {
    if (picks[i].node != node || !picks[i].started) continue;
    text += ": " + reasons.node(picks[i], i == 0 || picks[i - 1].time != picks[i].time);
  }
  return text;
}

/// A line for each stream, in which a node takes as many letters as its share of the time.
std::string timeline(const PlanView& view, double end) {
  constexpr int kLetters = kTextWidth - 12;
  std::string text;
  for (std::size_t s = 0; s < view.plan.commands.streams.size(); ++s) {
    std::string line(kLetters, ' ');
    for (const auto& [kind, node] : view.plan.commands.streams[s]) {
      if (kind != Command::Kind::launch) continue;
      const auto at = [&](double time) { return static_cast<std::size_t>(kLetters * time / end); };
      const std::size_t begin = at(view.simulation.runs[node].start),
                        length = at(view.simulation.runs[node].finish) - begin;
      if (length == 0) continue;
      std::string bar = '|' + std::to_string(node);
      if (bar.size() > length) bar = "|";
      bar.resize(length, '-');
      line.replace(begin, length, bar);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (!line.empty()) text += message("  stream ", s, s < 10 ? "  " : " ", line, "\n");
  }
  return text;
}

Json nodes_of(const Reasons& reasons, const PlanView& view) {
  const Edges& edges = view.problem.edges;
  const std::vector<double> levels = bottom_levels(edges, view.problem.costs);
  Json nodes = Json::array();
  for (const NodeId node : view.problem.graph.launched_nodes()) {
    Json implementations = Json::array();
    for (const Cost& cost : view.problem.costs.of(node)) {
      implementations.push_back({{"width", cost.width}, {"us", cost.duration}, {"algorithm", cost.algorithm}});
    }
    nodes.push_back({{"node", node},
                     {"op", reasons.op(node)},
                     {"layer", view.layer(node)},
                     {"pass", name_of(phase_of(view.problem.graph, node))},
                     {"level_us", levels[node]},
                     {"after", edges.predecessors(node)},
                     {"implementations", implementations}});
  }
  return nodes;
}

Json picks_of(const Reasons& reasons) {
  Json list = Json::array();
  const ScheduleLog::Pick* last = nullptr;
  for (const ScheduleLog::Pick& pick : reasons.shown()->picks) {
    const bool first = last == nullptr || pick.time != last->time;
    list.push_back({{"time_us", pick.time},
                    {"free_units", pick.free_units},
                    {"free_streams", pick.free_streams},
                    {"node", pick.node},
                    {"started", pick.started},
                    {"implementation", pick.implementation},
                    {"start_us", pick.start},
                    {"finish_us", pick.finish},
                    {"why", reasons.node(pick, first)},
                    {"width", pick.started ? reasons.width(pick) : ""}});
    if (first || pick.ready != last->ready) list.elements().back()["ready"] = pick.ready;
    last = &pick;
  }
  return list;
}

Json plan_of(const Explanation& explanation) {
  const Reasons reasons(explanation);
  const PlanView& view = explanation.view;
  const ScheduleLog& log = explanation.log;
  Json placements = Json::array(), attempts = Json::array(), dependences = Json::array();
  for (const NodeId node : view.problem.graph.launched_nodes()) {
    const Placement& placement = view.plan.placements[node];
    const Run& run = view.simulation.runs[node];
    placements.push_back({{"node", node},
                          {"stream", placement.stream},
                          {"implementation", placement.implementation},
                          {"start_us", run.start},
                          {"finish_us", run.finish},
                          {"why", reasons.stream(node)}});
  }
  for (const ScheduleLog::Attempt& attempt : log.attempts) {
    attempts.push_back({{"rule", attempt.rule}, {"makespan_us", attempt.makespan}});
  }
  for (const auto& [before, after, order, by] : log.dependences) {
    constexpr const char* kOrders[] = {"wait", "stream", "known", "later", "implied"};  // by Order
    dependences.push_back(
        {{"before", before}, {"after", after}, {"order", kOrders[static_cast<int>(order)]}, {"by", by}});
  }
  const std::string policy = view.plan.policy.substr(0, view.plan.policy.find(' '));
  Json plan{{"policy", view.plan.policy},
            {"rule", rule_of(policy)},
            {"makespan_us", view.simulation.makespan},
            {"waits", view.plan.commands.waits()},
            {"arena_bytes", view.plan.arena_bytes},
            {"placements", placements},
            {"attempts", attempts},
            {"kept", log.kept},
            {"dependences", dependences}};
  if (const ScheduleLog::Attempt* shown = reasons.shown()) {
    plan["shown"] = shown - log.attempts.data();
    plan["priorities"] = shown->priorities;  // per node, views included
    plan["start_orders"] = shown->start_orders;
    plan["picks"] = picks_of(reasons);
  }
  return plan;
}

}  // namespace

Difference first_difference(const Explanation& first, const Explanation& second) {
  const auto& [a, b] = std::tie(first.view, second.view);
  const std::vector<int> uses_a = first_uses(a), uses_b = first_uses(b);
  // At the same time, a node that starts earlier comes before one that only has another width or stream.
  std::tuple<double, bool, NodeId> least(std::max(a.simulation.makespan, b.simulation.makespan), true, kNoNode);
  for (const NodeId node : a.problem.graph.launched_nodes()) {
    const double start_a = a.simulation.runs[node].start, start_b = b.simulation.runs[node].start;
    const bool same_start = std::abs(start_a - start_b) <= 1e-9 * std::max(start_a, start_b);
    if (same_start && a.plan.placements[node].implementation == b.plan.placements[node].implementation &&
        uses_a[a.plan.placements[node].stream] == uses_b[b.plan.placements[node].stream]) {
      continue;
    }
    least = std::min(least, {std::min(start_a, start_b), same_start, node});
  }
  const auto [time, same_start, node] = least;
  if (node == kNoNode) return {};
  return {node, time, doing(first, node), doing(second, node)};
}

std::string compare(const Explanation& first, const Explanation& second) {
  std::vector<std::vector<std::string>> cells{{"policy", "makespan", "x bound", "waits", "arena, MiB"}};
  const Explanation* both[] = {&first, &second};
  for (const Explanation* one : both) {
    const PlanView& view = one->view;
    cells.push_back({view.plan.policy, microseconds(view.simulation.makespan),
                     fixed(view.simulation.makespan / view.plan.bound.bound, 2),
                     std::to_string(view.plan.commands.waits()), mebibytes(view.plan.arena_bytes)});
  }
  std::string text =
      wrapped(message(first.view.title, " on ", first.view.device)) + "\n\n" + text_table(cells, "lrrrr");
  const Difference difference = first_difference(first, second);
  const std::string names[] = {first.view.plan.policy, second.view.plan.policy};
  if (difference.node == kNoNode) {
    text += "\nThe plans start the same nodes at the same times, equally wide, in the same streams.\n";
  } else {
    text += wrapped(message("\nThe first decision in which they differ, at ", microseconds(difference.time),
                            ": when to start ", Reasons(first).label(difference.node), ", how wide and where")) +
            '\n' + wrapped(message("  ", names[0], ' ', difference.first), 4) + '\n' +
            wrapped(message("  ", names[1], ' ', difference.second), 4) + '\n';
  }
  const double end = std::max(first.view.simulation.makespan, second.view.simulation.makespan);
  for (const Explanation* one : both) {
    text += message('\n', one->view.plan.policy, ", until ", microseconds(one->view.simulation.makespan), ":\n",
                    timeline(one->view, end));
  }
  return text;
}

std::string to_json(std::span<const Explanation> explanations, std::span<const std::string> blocks) {
  const Explanation& first = explanations.front();
  const PlanView& view = first.view;
  Json plans = Json::array();
  for (const Explanation& explanation : explanations) plans.push_back(plan_of(explanation));
  Json json{{"title", view.title},
            {"device", view.device},
            {"unit", view.problem.oversubscribes ? "SM" : "core"},
            {"capacity", view.problem.capacity},
            {"streams", view.problem.streams},
            {"links", view.problem.links},
            {"lower_bound_us", view.plan.bound.bound},
            {"depth_us", view.plan.bound.depth},
            {"work_us", view.plan.bound.work},
            {"blocks", blocks},
            {"nodes", nodes_of(Reasons(first), view)},
            {"plans", plans}};
  if (explanations.size() > 1) {
    const Difference difference = first_difference(explanations[explanations.size() - 2], explanations.back());
    json["difference"] = {{"node", difference.node},
                          {"time_us", difference.time},
                          {"first", difference.first},
                          {"second", difference.second}};
  }
  return json.dump();
}

}  // namespace braid::scheduler
