#include "train/report/plan/reasons.h"

#include <algorithm>
#include <limits>

#include "core/text/text.h"
#include "core/text/text_table.h"

namespace braid::scheduler {

std::string microseconds(double value) { return fixed(value, 1) + " us"; }

Reasons::Reasons(const Explanation& explanation)
    : view_(explanation.view),
      log_(explanation.log),
      graph_(view_.problem.graph),
      edges_(view_.problem.edges),
      levels_(bottom_levels(edges_, view_.problem.costs)) {}

std::string Reasons::units(int count) const { return plural(count, view_.problem.oversubscribes ? "SM" : "core"); }

std::string Reasons::label(NodeId node) const {
  const std::string_view layer = view_.layer(node);
  return message(node, ' ', op(node), layer.empty() ? "" : " (", layer, layer.empty() ? "" : ")");
}

std::string Reasons::list(std::span<const NodeId> nodes) const { return nodes.empty() ? "-" : comma_list(nodes, " "); }

std::string Reasons::implementations(NodeId node) const {
  return comma_list(view_.problem.costs.of(node), ", ", [this](const Cost& cost) {
    const std::string algorithm = cost.algorithm.empty() ? "" : ' ' + cost.algorithm;
    return message(units(cost.width), algorithm, ' ', microseconds(cost.duration));
  });
}

std::string Reasons::stream_of(NodeId node) const { return message("stream ", view_.plan.placements[node].stream); }

const ScheduleLog::Attempt* Reasons::shown() const {
  if (log_.attempts.empty()) return nullptr;
  const ScheduleLog::Attempt* kept = &log_.attempts[log_.kept];
  if (!kept->picks.empty()) return kept;
  const ScheduleLog::Attempt& best = *std::ranges::min_element(log_.attempts, {}, [](const auto& attempt) {
    return attempt.picks.empty() ? std::numeric_limits<double>::infinity() : attempt.makespan;
  });
  return best.picks.empty() ? nullptr : &best;
}

std::string Reasons::node(const ScheduleLog::Pick& pick, bool first) const {
  if (!pick.started && pick.implementation < 0) return "would not finish by " + microseconds(pick.reserved);
  if (!pick.started) {
    const Cost& later = view_.problem.costs.of(pick.node, pick.implementation);
    const bool fits = view_.problem.costs.of(pick.node, 0).width <= pick.free_units;
    return message("waits until ", microseconds(pick.start), ", when ", units(later.width), " will be free",
                   fits ? ", and then finishes sooner" : "");
  }
  if (pick.ready.front() != pick.node) return "the next that fits";
  if (!first) return "the most urgent of the others";
  return pick.ready.size() == 1 ? "it alone is ready" : "the most urgent";
}

std::string Reasons::width(const ScheduleLog::Pick& pick) const {
  const auto implementations = view_.problem.costs.of(pick.node);
  const Cost& taken = implementations[pick.implementation];
  if (implementations.size() == 1) return message(units(taken.width), ", its only implementation");
  std::string text = units(taken.width);
  if (!taken.algorithm.empty()) text += " by " + taken.algorithm;
  if (pick.fixed) return text + ", as chosen by local search";
  if (!pick.in_turn && taken.width == std::max(pick.limit, 1)) return text + ", its share of what is free";
  return text + ", at which it finishes first";
}

std::string Reasons::stream(NodeId node) const {
  if (log_.stream_picks.empty()) return "";
  const ScheduleLog::StreamPick& pick = log_.stream_picks[node];
  if (pick.link) return "the stream of its link";
  if (pick.wide) return "the stream for wide nodes";
  const std::string last = pick.last == kNoNode ? "" : message(" after ", label(pick.last));
  if (pick.free_streams == 1) return "the only one free" + last;
  return (pick.waits == 0 ? "where it needs no wait" : message("where it needs ", plural(pick.waits, "wait"))) + last;
}

std::string Reasons::wait(const ScheduleLog::Dependence& dependence) const {
  const auto& [before, after, order, by] = dependence;
  const auto text = [&]() -> std::string {
    switch (order) {
      case ScheduleLog::Order::wait: return message("wait, ", stream_of(after), " for ", stream_of(before));
      case ScheduleLog::Order::stream: return message("both are in ", stream_of(after));
      case ScheduleLog::Order::known:
        return message("dropped, ", stream_of(after), " already waited for a later point");
      case ScheduleLog::Order::later: return message("dropped, ", by, " comes later in ", stream_of(before));
      case ScheduleLog::Order::implied: return message("dropped, ", by, " is itself after ", before);
    }
    return "";
  }();
  const bool is_data = std::ranges::binary_search(edges_.predecessors(after), before);
  const bool is_memory = std::ranges::count(log_.memory_edges, std::pair(before, after)) > 0;
  return message(before, " before ", after, ": ", text,
                 is_data     ? ""
                 : is_memory ? " (for memory, no data)"
                             : " (for capacity, no data)");
}

std::string_view rule_of(std::string_view policy) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {"serial", "every node on one stream, in an order that frees memory early"},
      {"list",
       "whenever capacity is free, the ready node with the longest path ahead starts, at its share of what is free"},
      {"critical_path", "list scheduling by several rules, improved from the end and by local search"},
      {"round_robin", "the nodes of each level are dealt over the streams in rotation"},
      {"matching", "chains of a minimum path cover stay on a stream, which needs the fewest waits"},
      {"stages", "groups of chains run stage by stage, as dynamic programming finds them"},
      {"resource_order", "of the ready nodes, the one that asks for the least of the device goes first"},
      {"auto", "the plan of the other policies that the simulator finds fastest"},
  };
  const auto* found = std::ranges::find(kRules, policy, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kRules) ? "" : found->second;
}

}  // namespace braid::scheduler
