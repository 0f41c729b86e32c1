#include "scheduler/lowering/stream_clocks.h"
#include "scheduler/plan.h"

namespace braid::scheduler {

void add_commands(const Edges& edges, const Schedule& schedule, int streams, Plan& plan, ScheduleLog* log) {
  const std::size_t nodes = schedule.placements.size();
  std::vector<std::vector<NodeId>> resource_predecessors(nodes), waits(nodes);
  for (const auto& [before, after] : schedule.resource_edges) resource_predecessors[after].push_back(before);

  StreamClocks clocks(nodes, streams);
  std::vector<bool> awaited(nodes);
  std::vector<NodeId> predecessors;
  for (const NodeId node : schedule.order) {
    const int stream = schedule.placements[node].stream;
    BRAID_CHECK(stream >= 0 && stream < streams, PlanError, "[waits] node ", node, " is placed on stream ", stream,
                " of ", streams);
    const auto by_data = edges.predecessors(node);
    predecessors.assign(by_data.begin(), by_data.end());
    predecessors.insert(predecessors.end(), resource_predecessors[node].begin(), resource_predecessors[node].end());
    const auto found = clocks.place(node, predecessors, stream, log);
    waits[node].assign(found.begin(), found.end());
    for (const NodeId before : found) awaited[before] = true;
  }

  plan.commands.streams.assign(streams, {});
  plan.commands.events = 0;
  std::vector<std::int32_t> events(nodes);
  for (const NodeId node : schedule.order) {
    auto& commands = plan.commands.streams[schedule.placements[node].stream];
    for (const NodeId before : waits[node]) commands.push_back({Command::Kind::wait, events[before]});
    commands.push_back({Command::Kind::launch, node});
    if (!awaited[node]) continue;
    events[node] = plan.commands.events++;
    commands.push_back({Command::Kind::record, events[node]});
  }
}

}  // namespace braid::scheduler
