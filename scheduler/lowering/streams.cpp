// Assigns nodes to streams by interval colouring of their times. Nodes are taken in the order of their starts, and each
// goes to a stream that is free at that time. There always is one, because no more nodes run at once than there are
// streams. The choice affects only how many waits are needed (scheduler/lowering/stream_clocks.h). A node whose result
// nothing reads may also move behind the next node of its stream, if the waits of that one cover its own.

#include <algorithm>
#include <tuple>
#include <utility>

#include "scheduler/lowering/stream_clocks.h"

namespace braid::scheduler {
namespace {

class StreamAssigner {
 public:
  StreamAssigner(const Problem& problem, Schedule& schedule, StreamPreference preference)
      : problem_(problem),
        schedule_(schedule),
        preference_(preference),
        streams_(problem.streams),
        clocks_(schedule.placements.size(), problem.all_streams()),
        free_since_(problem.all_streams(), 0),
        postponed_(problem.all_streams()),
        waiting_(schedule.placements.size()) {
    for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
      waiting_[node] = static_cast<int>(problem.edges.successors(node).size());
    }
    if (preference == StreamPreference::late_updates) find_updates();
  }

  void run() {
    sort_by_start();
    if (problem_.log != nullptr) problem_.log->stream_picks.assign(schedule_.placements.size(), {});
    for (const NodeId node : std::exchange(schedule_.order, {})) {
      for (const NodeId before : problem_.edges.predecessors(node)) {
        if (!clocks_.is_placed(before)) place(before, placement(before).stream);
      }
      const int stream = choose_stream(node);
      BRAID_CHECK(stream >= 0, PlanError, "[streams] no stream of ", streams_, " is free when node ", node, " starts");
      free_since_[stream] = placement(node).finish;
      if (!may_be_late_.empty() && may_be_late_[node] && waits(node, stream) > 0) {
        schedule_.placements[node].stream = stream;
        postponed_[stream].push_back(node);
        continue;
      }
      place(node, stream);
      for (const NodeId late : postponed_[stream]) {
        if (!clocks_.is_placed(late) && waits(late, stream) == 0) place(late, stream);
      }
      std::erase_if(postponed_[stream], [&](NodeId late) { return clocks_.is_placed(late); });
    }
    for (int stream = 0; stream < problem_.all_streams(); ++stream) {
      for (const NodeId late : postponed_[stream]) {
        if (!clocks_.is_placed(late)) place(late, stream);
      }
    }
  }

 private:
  /// Marks nodes whose outputs no node reads.
  void find_updates() {
    const StepGraph& graph = problem_.graph;
    may_be_late_.assign(graph.node_count(), true);
    for (const Node& node : graph.nodes()) {
      for (const ValueId input : graph.inputs(node)) {
        const NodeId producer = graph.value(graph.value(input).root).producer;
        if (producer != kNoNode) may_be_late_[producer] = false;
      }
    }
  }

  /// At equal times, nodes of no duration come first, as they finish before the others start; then those with the
  /// longest path ahead.
  void sort_by_start() {
    schedule_.order = problem_.graph.launched_nodes();
    const std::vector<double> levels = bottom_levels(problem_.edges, problem_.costs);
    std::ranges::stable_sort(schedule_.order, {}, [&](NodeId node) {
      return std::tuple(placement(node).start, placement(node).finish > placement(node).start, -levels[node]);
    });
  }

  const Placement& placement(NodeId node) const { return schedule_.placements[node]; }
  std::size_t waits(NodeId node, int stream) {
    return clocks_.waits(node, problem_.edges.predecessors(node), stream).size();
  }
  bool is_free(int stream, double time) const { return free_since_[stream] <= time; }
  bool is_wide(NodeId node) const {
    return !problem_.oversubscribes && problem_.costs.of(node, placement(node).implementation).width > 1;
  }

  /// Whether the data dependencies would have let a node start earlier.
  bool was_held(NodeId node) const {
    return std::ranges::all_of(problem_.edges.predecessors(node),
                               [&](NodeId before) { return placement(before).finish < placement(node).start; });
  }

  /// Wide nodes go to stream 0 if it is free, so that on CPU one worker owns the wide team of threads. Others go where
  /// they need the fewest waits, then where they keep the fewest others from following a predecessor.
  int choose_stream(NodeId node) {
    const Placement& place = placement(node);
    if (const int link = problem_.costs.link(node); link != kNoLink) return streams_ + link;
    if (is_wide(node) && is_free(0, place.start)) return 0;
    const bool held = preference_ == StreamPreference::on_time && was_held(node);
    int best = -1;
    std::tuple<bool, std::size_t, int, double> least;
    for (int stream = 0; stream < streams_; ++stream) {
      if (!is_free(stream, place.start)) continue;
      const NodeId last = clocks_.last(stream);
      const bool early = held && free_since_[stream] < place.start;
      const bool follows = last == kNoNode || std::ranges::binary_search(problem_.edges.predecessors(node), last);
      const int lost = follows ? 0 : waiting_[last];  // nodes that could have followed it
      const std::tuple cost(early, waits(node, stream), lost, -free_since_[stream]);
      if (best < 0 || cost < least) {
        best = stream;
        least = cost;
      }
    }
    return best;
  }

  void note(NodeId node, int stream) {
    ScheduleLog::StreamPick& pick = problem_.log->stream_picks[node];
    pick = {.wide = stream == 0 && is_wide(node),
            .link = problem_.costs.link(node) != kNoLink,
            .waits = static_cast<int>(waits(node, stream)),
            .last = clocks_.last(stream)};
    for (int other = 0; other < streams_; ++other) pick.free_streams += is_free(other, placement(node).start);
  }

  void place(NodeId node, int stream) {
    if (problem_.log != nullptr) note(node, stream);
    schedule_.placements[node].stream = stream;
    schedule_.order.push_back(node);
    clocks_.place(node, problem_.edges.predecessors(node), stream);
    for (const NodeId before : problem_.edges.predecessors(node)) --waiting_[before];
  }

  const Problem& problem_;
  Schedule& schedule_;
  const StreamPreference preference_;
  const int streams_;  // that compute
  StreamClocks clocks_;
  std::vector<double> free_since_;              // per stream: when the last node assigned to it finishes
  std::vector<std::vector<NodeId>> postponed_;  // per stream: nodes without a place in it yet
  std::vector<bool> may_be_late_;               // per node, if any may
  std::vector<int> waiting_;                    // per node: successors that have not started
};

}  // namespace

void assign_streams(const Problem& problem, Schedule& schedule, StreamPreference preference) {
  StreamAssigner(problem, schedule, preference).run();
}

}  // namespace braid::scheduler
