// From a schedule to command lists with as few waits as its stream assignment allows. Every node has a vector clock
// (Mattern, "Virtual time and global states of distributed systems", 1989): how many nodes of each stream have finished
// when it has. A predecessor needs a wait only if neither the stream's own past nor another wait of the same node
// covers it. Since streams are in order, that leaves at most one wait per other stream, and no wait can be left out:
// this is the transitive reduction of the graph with the streams' own order added.

#include <algorithm>
#include <utility>

#include "scheduler/plan.h"
#include "scheduler/schedule_log.h"

namespace braid::scheduler {
namespace {

class WaitPlanner {
 public:
  WaitPlanner(const Edges& edges, const Schedule& schedule, int streams, ScheduleLog* log)
      : edges_(edges), schedule_(schedule), streams_(streams), log_(log), nodes_(schedule.placements.size()) {
    for (const auto& [before, after] : schedule.resource_edges) nodes_[after].resource_predecessors.push_back(before);
    clocks_.resize(nodes_.size() * streams);
  }

  void run(Plan& plan) {
    std::vector<NodeId> last(streams_, kNoNode);
    for (const NodeId id : schedule_.order) {
      NodeId& previous = last[stream(id)];
      find_waits(id, previous);
      previous = id;
    }
    for (const NodeId id : schedule_.order) emit(id, plan);
  }

 private:
  struct NodeState {
    std::vector<NodeId> resource_predecessors;
    std::vector<NodeId> waits;   // nodes of other streams that must finish first
    std::int32_t position = -1;  // in its stream
    bool awaited = false;
    std::int32_t event = -1;
  };

  int stream(NodeId id) const { return schedule_.placements[id].stream; }
  std::span<std::int32_t> clock(NodeId id) { return std::span(clocks_).subspan(std::size_t(id) * streams_, streams_); }
  bool covers(std::span<const std::int32_t> clock, NodeId id) const { return clock[stream(id)] > nodes_[id].position; }

  void note(NodeId before, NodeId after, ScheduleLog::Order order, NodeId by = kNoNode) {
    if (log_ != nullptr) log_->dependences.push_back({before, after, order, by});
  }

  void find_waits(NodeId id, NodeId previous) {
    NodeState& node = nodes_[id];
    const auto now = clock(id);
    if (previous != kNoNode) std::ranges::copy(clock(previous), now.begin());

    // The latest predecessor on each stream that the stream's own past does not cover.
    std::vector<NodeId> latest(streams_, kNoNode);
    const auto require = [&](NodeId before) {
      NodeId& other = latest[stream(before)];
      if (covers(now, before)) {
        return note(before, id, stream(before) == stream(id) ? ScheduleLog::Order::stream : ScheduleLog::Order::known);
      }
      if (other == before) return;
      const bool is_later = other == kNoNode || nodes_[before].position > nodes_[other].position;
      const NodeId earlier = is_later ? std::exchange(other, before) : before;
      if (earlier != kNoNode) note(earlier, id, ScheduleLog::Order::later, other);
    };
    for (const NodeId before : edges_.predecessors(id)) require(before);
    for (const NodeId before : node.resource_predecessors) require(before);

    // Of these, the ones that no other covers.
    std::erase(latest, kNoNode);
    for (const NodeId before : latest) {
      const auto by =
          std::ranges::find_if(latest, [&](NodeId other) { return other != before && covers(clock(other), before); });
      const bool implied = by != latest.end();
      note(before, id, implied ? ScheduleLog::Order::implied : ScheduleLog::Order::wait, implied ? *by : kNoNode);
      if (implied) continue;
      node.waits.push_back(before);
      nodes_[before].awaited = true;
    }
    for (const NodeId before : node.waits) {
      std::ranges::transform(now, clock(before), now.begin(), [](auto a, auto b) { return std::max(a, b); });
    }
    node.position = now[stream(id)]++;
  }

  void emit(NodeId id, Plan& plan) {
    NodeState& node = nodes_[id];
    auto& commands = plan.commands.streams[stream(id)];
    for (const NodeId before : node.waits) commands.push_back({Command::Kind::wait, nodes_[before].event});
    commands.push_back({Command::Kind::launch, id});
    if (!node.awaited) return;
    node.event = plan.commands.events++;
    commands.push_back({Command::Kind::record, node.event});
  }

  const Edges& edges_;
  const Schedule& schedule_;
  const int streams_;
  ScheduleLog* const log_;
  std::vector<NodeState> nodes_;
  std::vector<std::int32_t> clocks_;  // node × stream
};

}  // namespace

void add_commands(const Edges& edges, const Schedule& schedule, int streams, Plan& plan, ScheduleLog* log) {
  for (const NodeId id : schedule.order) {
    const int stream = schedule.placements[id].stream;
    BRAID_CHECK(stream >= 0 && stream < streams, PlanError, "[waits] node ", id, " is placed on stream ", stream,
                " of ", streams);
  }
  plan.commands.streams.assign(streams, {});
  plan.commands.events = 0;
  WaitPlanner(edges, schedule, streams, log).run(plan);
}

}  // namespace braid::scheduler
