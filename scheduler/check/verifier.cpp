// Proves a plan free of races, from the commands and the bytes alone, sharing no code with what made it. First it
// replays the commands: streams advance until all are done or none can, and every node gets a vector clock, so that
// "before" between two nodes is one comparison. Then every read must come after its write, and among values that share
// bytes every use of one must finish before the next is written. "Finishes before" is transitive, so comparing
// neighbours in time is enough: a line sweeps the addresses and holds the values at that address sorted by their
// writes, much as Bentley and Ottmann's sweep (1979) compares only neighbouring segments. That is O(n log n) for n
// values.

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "core/text/text.h"
#include "scheduler/plan.h"

namespace braid::scheduler {
namespace {

constexpr std::size_t kMaxFaults = 20;

class Verifier {
 public:
  Verifier(const StepGraph& graph, const Costs& costs, const Plan& plan) : graph_(graph), costs_(costs), plan_(plan) {}

  std::vector<std::string> run() {
    // Each check relies on the ones before it.
    if (check_sizes() && check_commands() && check_links() && check_counts() && replay()) {
      check_resource_edges();
      check_reads();
      collect_accesses();
      check_versions();
      check_workspace_sizes();
      if (check_ranges() && check_workspace_ranges()) {
        sweep_addresses();
        check_workspace_overlaps();
      }
    }
    return std::move(faults_);
  }

 private:
  template <class... Parts>
  void fault(const Parts&... parts) {
    std::string text = message(parts...);
    if (faults_.size() < kMaxFaults && std::ranges::find(faults_, text) == faults_.end()) faults_.push_back(text);
  }

  std::string describe(NodeId id) const {
    return message("node ", id, " '", graph_.node(id).op->name(), "' on stream ", plan_.placements[id].stream);
  }

  // Structure

  bool check_sizes() {
    const auto expect = [&](const char* what, std::size_t expected, std::size_t found) {
      if (found != expected) fault("The plan has ", found, " ", what, " instead of ", expected, ".");
    };
    expect("node costs", graph_.node_count(), costs_.node_count());
    expect("placements", graph_.node_count(), plan_.placements.size());
    expect("offsets", graph_.value_count(), plan_.offsets.size());
    expect("workspaces", plan_.commands.streams.size(), plan_.workspaces.size());
    if (plan_.commands.events < 0) fault("The plan has ", plan_.commands.events, " events.");
    return faults_.empty();
  }

  bool check_commands() {
    for (std::size_t s = 0; s < plan_.commands.streams.size(); ++s) {
      for (const auto& [kind, index] : plan_.commands.streams[s]) {
        if (kind == Command::Kind::launch) {
          if (index < 0 || index >= graph_.node_count()) {
            fault("Stream ", s, " launches node ", index, ", which does not exist.");
          } else if (graph_.node(index).is_view) {
            fault("Stream ", s, " launches node ", index, ", which is only a view.");
          } else if (plan_.placements[index].stream != static_cast<int>(s)) {
            fault("Stream ", s, " launches ", describe(index), ".");
          }
        } else if (kind == Command::Kind::record || kind == Command::Kind::wait) {
          if (index < 0 || index >= plan_.commands.events)
            fault("Stream ", s, " uses event ", index, ", which does not exist.");
        } else {
          fault("Stream ", s, " has a command of unknown kind ", static_cast<int>(kind), ".");
        }
      }
    }
    return faults_.empty();
  }

  /// Each link belongs to one stream, so that its nodes have the same order on all ranks.
  bool check_links() {
    std::map<int, NodeId> first;
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      const int link = costs_.link(id);
      if (link == kNoLink) continue;
      const NodeId other = first.try_emplace(link, id).first->second;
      if (plan_.placements[id].stream != plan_.placements[other].stream) {
        fault(describe(other), " and ", describe(id), " both communicate over link ", link, ", in no certain order.");
      }
    }
    return faults_.empty();
  }

  bool check_counts() {
    std::vector<int> launches(graph_.node_count()), records(plan_.commands.events);
    for (const auto& commands : plan_.commands.streams) {
      for (const auto& [kind, index] : commands) {
        if (kind == Command::Kind::launch) ++launches[index];
        if (kind == Command::Kind::record) ++records[index];
      }
    }
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      if (launches[id] != 1 && !graph_.node(id).is_view) fault(describe(id), " is launched ", launches[id], " times.");
      const int implementation = plan_.placements[id].implementation;
      if (implementation < 0 || implementation >= static_cast<int>(costs_.of(id).size())) {
        fault(describe(id), " has implementation ", implementation, " of ", costs_.of(id).size(), ".");
      }
    }
    for (std::int32_t event = 0; event < plan_.commands.events; ++event) {
      if (records[event] != 1) fault("Event ", event, " is recorded ", records[event], " times.");
    }
    return faults_.empty();
  }

  // Order

  /// Advances all streams as far as possible. False if some are stuck.
  bool replay() {
    using Clock = std::vector<std::int32_t>;  // per stream: how many of its nodes have finished
    const std::size_t streams = plan_.commands.streams.size();
    std::vector<Clock> stream_clock(streams, Clock(streams)), event_clock(plan_.commands.events);
    std::vector<std::size_t> done(streams);
    position_.assign(graph_.node_count(), -1);
    write_time_.assign(graph_.node_count(), -1);
    clock_.assign(graph_.node_count() * streams, 0);
    std::int32_t launched = 0;

    const auto step = [&](std::size_t s) {  // false if the next command has to wait
      Clock& now = stream_clock[s];
      const auto [kind, index] = plan_.commands.streams[s][done[s]];
      if (kind == Command::Kind::launch) {
        std::ranges::copy(now, clock_.begin() + index * streams);
        position_[index] = now[s]++;
        write_time_[index] = launched++;
      } else if (kind == Command::Kind::record) {
        event_clock[index] = now;
      } else {
        if (event_clock[index].empty()) return false;
        for (std::size_t t = 0; t < streams; ++t) now[t] = std::max(now[t], event_clock[index][t]);
      }
      ++done[s];
      return true;
    };

    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t s = 0; s < streams; ++s) {
        while (done[s] < plan_.commands.streams[s].size() && step(s)) progress = true;
      }
    }
    for (std::size_t s = 0; s < streams; ++s) {
      if (done[s] == plan_.commands.streams[s].size()) continue;
      fault("Stream ", s, " waits for event ", plan_.commands.streams[s][done[s]].index, " forever: deadlock.");
    }
    return faults_.empty();
  }

  /// Whether `a` has finished when `b` starts, whatever the durations.
  bool before(NodeId a, NodeId b) const {
    return clock_[b * plan_.commands.streams.size() + plan_.placements[a].stream] > position_[a];
  }

  void check_resource_edges() {
    for (const auto& [a, b] : plan_.resource_edges) {
      if (std::min(a, b) < 0 || std::max(a, b) >= graph_.node_count() || position_[a] < 0 || position_[b] < 0) {
        fault("The resource edge from node ", a, " to node ", b, " refers to a node that is not launched.");
      } else if (!before(a, b)) {
        fault("The resource edge from ", describe(a), " to ", describe(b), " is not enforced: nothing orders them.");
      }
    }
  }

  void check_reads() {
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      if (graph_.node(id).is_view) continue;
      for (const ValueId input : graph_.inputs(id)) {
        const NodeId producer = graph_.value(graph_.value(input).root).producer;
        if (producer == kNoNode || before(producer, id)) continue;
        fault(describe(id), " reads value ", input, " but is not ordered after ", describe(producer),
              ", which writes it.");
      }
    }
  }

  // Bytes

  bool owns_bytes(ValueId id) const { return graph_.value(id).root == id; }
  bool persistent(ValueId id) const { return graph_.value(id).slot >= 0; }
  std::int64_t bytes(ValueId id) const { return static_cast<std::int64_t>(graph_.value(id).bytes()); }

  /// When a value is written: before everything else if no node writes it.
  std::int32_t written(ValueId id) const {
    const NodeId producer = graph_.value(id).producer;
    return producer == kNoNode ? -1 : write_time_[producer];
  }

  void collect_accesses() {
    accesses_.resize(graph_.value_count());
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      const Node& node = graph_.node(id);
      if (node.is_view) continue;
      for (const ValueId input : graph_.inputs(node)) accesses_[graph_.value(input).root].push_back(id);
      for (int i = 0; i < node.output_count; ++i) accesses_[graph_.output(id, i)].push_back(id);
    }
  }

  /// Whether the writer of `next` may read `old` at the same address while it writes.
  bool in_place(ValueId old, ValueId next) const {
    const Value& value = graph_.value(next);
    if (value.previous == old) return true;
    if (value.reuses != old || plan_.offsets[old] != plan_.offsets[next]) return false;
    const auto reads_old = [&](ValueId input) { return graph_.value(input).root == old; };
    return std::ranges::count_if(graph_.inputs(value.producer), reads_old) == 1;
  }

  /// Every use of `old` must finish before `next` is written to the same bytes.
  void check_overwrite(ValueId old, ValueId next) {
    const NodeId writer = graph_.value(next).producer;
    if (writer == kNoNode) {
      fault("Values ", old, " and ", next, " share bytes, and both are there from the start.");
    } else if (graph_.value(old).kept) {
      fault(describe(writer), " writes value ", next, " over value ", old, ", which is kept to the end.");
    } else {
      for (const NodeId user : accesses_[old]) {
        if (before(user, writer) || (user == writer && in_place(old, next))) continue;
        fault(describe(writer), " writes value ", next, " over value ", old, " but is not ordered after ",
              describe(user), ", which uses it.");
        return;
      }
    }
  }

  /// Versions of a persistent tensor follow one another.
  void check_versions() {
    std::vector<std::pair<std::int32_t, ValueId>> versions;  // recording order is the order of versions
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      if (persistent(id) && owns_bytes(id)) versions.emplace_back(graph_.value(id).slot, id);
    }
    std::ranges::sort(versions);
    for (std::size_t i = 1; i < versions.size(); ++i) {
      if (versions[i].first == versions[i - 1].first) check_overwrite(versions[i - 1].second, versions[i].second);
    }
  }

  bool check_ranges() {
    const std::size_t faults = faults_.size();
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const std::int64_t offset = plan_.offsets[id];
      if (persistent(id)) {
        if (offset != -1) fault("Value ", id, " is persistent but has the arena offset ", offset, ".");
      } else if (!owns_bytes(id)) {
        const ValueId root = graph_.value(id).root;
        if (offset != plan_.offsets[root]) fault("Value ", id, " is a view of value ", root, " at another address.");
      } else if (offset < 0 || offset > plan_.arena_bytes - bytes(id)) {
        fault("Value ", id, " of ", plural(bytes(id), "byte"), " at ", offset, " is not inside the arena of ",
              plural(plan_.arena_bytes, "byte"), ".");
      } else if (offset % kArenaAlignment != 0) {
        fault("Value ", id, " at ", offset, " is not aligned to ", kArenaAlignment, " bytes.");
      }
    }
    return faults_.size() == faults;
  }

  void sweep_addresses() {
    struct Border {
      std::int64_t address;
      bool opens;  // at equal addresses, ranges close before others open
      ValueId value;
      auto operator<=>(const Border&) const = default;
    };
    std::vector<Border> borders;
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      if (persistent(id) || !owns_bytes(id) || bytes(id) == 0) continue;
      borders.push_back({plan_.offsets[id], true, id});
      borders.push_back({plan_.offsets[id] + bytes(id), false, id});
    }
    std::ranges::sort(borders);

    std::set<std::pair<std::int32_t, ValueId>> here;  // (time of the write, value) at the current address
    for (const Border& border : borders) {
      const std::pair entry(written(border.value), border.value);
      if (border.opens) {
        const auto place = here.insert(entry).first;
        if (place != here.begin()) check_overwrite(std::prev(place)->second, border.value);
        if (std::next(place) != here.end()) check_overwrite(border.value, std::next(place)->second);
      } else {
        here.erase(entry);  // its neighbours are in order because each is in order with it
      }
    }
  }

  // Workspaces. Nodes of one stream never run concurrently, so one slice per stream is enough; nothing else may ever
  // occupy it.

  bool check_workspace_ranges() {
    const std::size_t faults = faults_.size();
    for (std::size_t s = 0; s < plan_.workspaces.size(); ++s) {
      const ArenaSlice& slice = plan_.workspaces[s];
      if (slice.offset < 0 || slice.bytes < 0 || slice.offset > plan_.arena_bytes - slice.bytes) {
        fault("The workspace of stream ", s, " is not inside the arena.");
      }
      if (slice.offset % kArenaAlignment != 0) fault("The workspace of stream ", s, " is not aligned.");
    }
    return faults_.size() == faults;
  }

  void check_workspace_overlaps() {
    const auto overlap = [](const ArenaSlice& a, const ArenaSlice& b) {
      return a.bytes > 0 && b.bytes > 0 && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
    };
    for (std::size_t s = 0; s < plan_.workspaces.size(); ++s) {
      const ArenaSlice& slice = plan_.workspaces[s];
      for (std::size_t t = 0; t < s; ++t) {
        if (overlap(slice, plan_.workspaces[t])) fault("The workspaces of streams ", t, " and ", s, " overlap.");
      }
      for (ValueId id = 0; id < graph_.value_count(); ++id) {
        if (persistent(id) || !overlap(slice, {plan_.offsets[id], bytes(id)})) continue;
        fault("Value ", id, " overlaps the workspace of stream ", s, ".");
      }
    }
  }

  void check_workspace_sizes() {
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      if (graph_.node(id).is_view) continue;
      const Placement& placement = plan_.placements[id];
      const auto needed = static_cast<std::int64_t>(costs_.of(id, placement.implementation).workspace_bytes);
      const std::int64_t given = plan_.workspaces[placement.stream].bytes;
      if (needed > given)
        fault(describe(id), " needs ", plural(needed, "byte"), " of workspace, its stream has ", given, ".");
    }
  }

  const StepGraph& graph_;
  const Costs& costs_;
  const Plan& plan_;
  std::vector<std::string> faults_;
  std::vector<std::int32_t> position_;    // per node: place in its stream, -1 if not launched
  std::vector<std::int32_t> write_time_;  // per node: place in one order in which the plan can run
  std::vector<std::int32_t> clock_;       // node × stream: how many nodes of the stream have finished when it starts
  std::vector<std::vector<NodeId>> accesses_;  // per value that owns bytes: its writer and its readers
};

}  // namespace

std::vector<std::string> verify_plan(const StepGraph& graph, const Costs& costs, const Plan& plan) {
  return Verifier(graph, costs, plan).run();
}

}  // namespace braid::scheduler
