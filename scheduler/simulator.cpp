#include "scheduler/simulator.h"

#include <algorithm>
#include <limits>

namespace braid {
namespace {

class Simulator {
 public:
  Simulator(const Problem& problem, const Plan& plan)
      : problem_(problem), plan_(plan), streams_(plan.streams.size()), events_(plan.events) {
    result_.runs.resize(problem.graph.node_count());
    result_.busy.resize(plan.streams.size());
    cause_.assign(problem.graph.node_count(), kNoNode);
  }

  Simulation run() {
    advance_streams();
    while (!running_.empty()) {
      set_rates();
      const double step = std::ranges::min(running_, {}, &Running::remaining_time).remaining_time();
      now_ += step;
      for (Running& running : running_) running.work -= step * running.rate;
      finish_nodes();
      advance_streams();
    }
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      BRAID_CHECK(streams_[s].next == plan_.streams[s].size(), PlanError, "[simulator] stream ", s,
                  " waits for ever at command ", streams_[s].next);
    }
    result_.makespan = now_;
    trace_back();
    return std::move(result_);
  }

 private:
  struct StreamState {
    std::size_t next = 0;  // its next command
    bool busy = false;
    NodeId gate = kNoNode;  // the node, in this stream or awaited, that was over last
  };
  struct EventState {
    bool recorded = false;
    NodeId gate = kNoNode;
  };
  struct Running {
    NodeId node;
    int stream;
    double work;      // microseconds left if nothing else ran
    double rate = 1;  // work done in a microsecond
    double remaining_time() const { return work / rate; }
  };

  /// Plays every stream up to a launch or a wait for something that is still running.
  void advance_streams() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t s = 0; s < streams_.size(); ++s) {
        StreamState& stream = streams_[s];
        while (!stream.busy && stream.next < plan_.streams[s].size() && play(s, plan_.streams[s][stream.next])) {
          ++stream.next;
          progress = true;
        }
      }
    }
  }

  /// False if the command has to wait.
  bool play(std::size_t s, const Command& command) {
    StreamState& stream = streams_[s];
    if (command.kind == Command::Kind::record) {
      events_[command.index] = {true, stream.gate};
    } else if (command.kind == Command::Kind::wait) {
      if (!events_[command.index].recorded) return false;
      stream.gate = later(stream.gate, events_[command.index].gate);
    } else {
      const double duration = choice(command.index).duration;
      result_.runs[command.index].start = now_;
      cause_[command.index] = stream.gate;
      stream.busy = true;
      running_.push_back({command.index, static_cast<int>(s), duration});
    }
    return true;
  }

  NodeId later(NodeId a, NodeId b) const {
    if (a == kNoNode || b == kNoNode) return std::max(a, b);
    return result_.runs[b].finish > result_.runs[a].finish ? b : a;
  }

  const Choice& choice(NodeId node) const { return problem_.costs.choice(node, plan_.placements[node].choice); }

  void set_rates() {
    int demand = 0;
    for (const Running& running : running_) demand += choice(running.node).width;
    const double share = std::min(1.0, static_cast<double>(problem_.capacity) / demand);
    for (Running& running : running_) {
      running.rate = share;
      if (problem_.slow_downs == nullptr) continue;
      for (const Running& other : running_) {
        if (&other == &running) continue;
        running.rate /= problem_.slow_downs->factor(running.node, plan_.placements[running.node].choice, other.node,
                                                    plan_.placements[other.node].choice);
      }
    }
  }

  void finish_nodes() {
    std::erase_if(running_, [&](const Running& running) {
      constexpr double kRounding = 1e-9;  // microseconds
      if (running.work > kRounding) return false;
      Simulation::Run& run = result_.runs[running.node];
      run.finish = now_;
      result_.busy[running.stream] += run.finish - run.start;
      streams_[running.stream].busy = false;
      streams_[running.stream].gate = running.node;
      return true;
    });
  }

  /// From the node that is over last, back along what each had to wait for.
  void trace_back() {
    NodeId last = kNoNode;
    for (const StreamState& stream : streams_) last = later(last, stream.gate);
    for (NodeId node = last; node != kNoNode; node = cause_[node]) result_.critical_path.push_back(node);
    std::ranges::reverse(result_.critical_path);
  }

  const Problem& problem_;
  const Plan& plan_;
  double now_ = 0;
  std::vector<StreamState> streams_;
  std::vector<EventState> events_;
  std::vector<Running> running_;
  std::vector<NodeId> cause_;  // per node: what was over last before it started
  Simulation result_;
};

}  // namespace

Simulation simulate(const Problem& problem, const Plan& plan) { return Simulator(problem, plan).run(); }

void take_simulated_times(const Problem& problem, Plan& plan) {
  const Simulation simulation = simulate(problem, plan);
  for (std::size_t node = 0; node < plan.placements.size(); ++node) {
    plan.placements[node].start = simulation.runs[node].start;
    plan.placements[node].finish = simulation.runs[node].finish;
  }
  plan.makespan = simulation.makespan;
}

}  // namespace braid
