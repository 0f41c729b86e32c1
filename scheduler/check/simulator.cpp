#include "scheduler/check/simulator.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace braid::scheduler {
namespace {

class Simulator {
 public:
  Simulator(const Problem& problem, const Plan& plan, const CommandOrder& order)
      : problem_(problem), plan_(plan), order_(order), streams_(order.streams()) {
    result_.runs.resize(problem.graph.node_count());
    result_.busy.resize(order.streams());
    finished_.assign(problem.graph.node_count(), false);
    cause_.assign(problem.graph.node_count(), kNoNode);
    if (problem.host_microseconds > 0) set_launches();
  }

  Simulation run() {
    for (advance_streams(); !running_.empty(); advance_streams()) {
      set_rates();
      now_ = std::ranges::min(running_, {}, &Running::finish).finish;
      finish_nodes();
    }
    result_.makespan = now_;
    trace_back();
    return std::move(result_);
  }

 private:
  static constexpr double kRounding = 1e-12;  // relative

  /// The host launches the nodes in the order in which they should start.
  void set_launches() {
    std::vector<NodeId> nodes(problem_.graph.node_count());
    std::iota(nodes.begin(), nodes.end(), 0);
    std::erase_if(nodes, [&](NodeId node) { return problem_.graph.node(node).is_view; });
    std::ranges::stable_sort(nodes, {}, [&](NodeId node) { return plan_.placements[node].start; });
    launched_.resize(problem_.graph.node_count());
    double time = 0;
    for (const NodeId node : nodes) launched_[node] = time += problem_.host_microseconds;
  }

  struct StreamState {
    std::size_t next = 0;     // its next node
    std::size_t awaited = 0;  // how many of the nodes that it waits for have finished
    bool busy = false;        // running a node, or waking up
    bool waiting = false;     // for a node that had not finished
    NodeId gate = kNoNode;    // the node, in this stream or awaited, that finished last
  };
  struct Running {
    NodeId node;  // kNoNode for a stream that is waking up
    int stream;
    double finish;    // if nothing starts or ends until then
    double rate = 1;  // its progress relative to running alone
  };

  /// Takes every stream up to a launch or a wait for something that is still running.
  void advance_streams() {
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      StreamState& stream = streams_[s];
      const auto nodes = order_.launched(s);
      while (!stream.busy && stream.next < nodes.size() && advance(s, nodes[stream.next])) {
      }
    }
  }

  /// Passes one wait ahead of the node, or launches it. False if a wait is pending.
  bool advance(std::size_t s, NodeId node) {
    StreamState& stream = streams_[s];
    const auto awaited = order_.awaited(node);
    if (stream.awaited == awaited.size()) {
      if (!launched_.empty() && launched_[node] > now_ * (1 + kRounding)) {
        start(s, kNoNode, launched_[node] - now_);
        return true;
      }
      result_.runs[node].start = now_;
      cause_[node] = stream.gate;
      start(s, node, cost(node).duration);
      stream.awaited = 0;
      ++stream.next;
      return true;
    }
    const NodeId before = awaited[stream.awaited];
    const bool waited = std::exchange(stream.waiting, !finished_[before]);
    if (!finished_[before]) return false;
    stream.gate = later(stream.gate, before);
    if (waited && problem_.wait_microseconds > 0) start(s, kNoNode, problem_.wait_microseconds);
    ++stream.awaited;
    return true;
  }

  void start(std::size_t stream, NodeId node, double microseconds) {
    streams_[stream].busy = true;
    running_.push_back({node, static_cast<int>(stream), now_ + microseconds});
  }

  NodeId later(NodeId a, NodeId b) const {
    if (a == kNoNode || b == kNoNode) return std::max(a, b);
    return result_.runs[b].finish > result_.runs[a].finish ? b : a;
  }

  const Cost& cost(NodeId node) const { return problem_.costs.of(node, plan_.placements[node].implementation); }

  /// Updates the rates of the running nodes. An unchanged rate keeps its finish time, so that rounding errors do not
  /// add up.
  void set_rates() {
    int demand = 0;
    for (const Running& running : running_) demand += running.node == kNoNode ? 0 : cost(running.node).width;
    const double share = demand > problem_.capacity ? static_cast<double>(problem_.capacity) / demand : 1;
    for (Running& running : running_) {
      if (running.node == kNoNode) continue;
      const double rate = std::min(1.0, (cost(running.node).width == 0 ? 1 : share) / slow_down(running));
      if (rate == running.rate) continue;
      running.finish = now_ + (running.finish - now_) * (running.rate / rate);
      running.rate = rate;
    }
  }

  /// The factor by which the nodes that run beside it slow it down.
  double slow_down(const Running& running) const {
    double factor = 1;
    if (problem_.interference.empty()) return factor;
    for (const Running& other : running_) {
      if (other.node == running.node || other.node == kNoNode) continue;
      factor *= problem_.interference.factor(running.node, plan_.placements[running.node].implementation, other.node,
                                             plan_.placements[other.node].implementation);
    }
    return factor;
  }

  void finish_nodes() {
    std::erase_if(running_, [&](const Running& running) {
      if (running.finish > now_ * (1 + kRounding)) return false;
      streams_[running.stream].busy = false;
      if (running.node == kNoNode) return true;
      Simulation::Run& run = result_.runs[running.node];
      run.finish = now_;
      finished_[running.node] = true;
      result_.busy[running.stream] += run.finish - run.start;
      streams_[running.stream].gate = running.node;
      return true;
    });
  }

  /// From the node that finishes last, back along what each one waited for.
  void trace_back() {
    NodeId last = kNoNode;
    for (const StreamState& stream : streams_) last = later(last, stream.gate);
    for (NodeId node = last; node != kNoNode; node = cause_[node]) result_.critical_path.push_back(node);
    std::ranges::reverse(result_.critical_path);
  }

  const Problem& problem_;
  const Plan& plan_;
  const CommandOrder& order_;
  double now_ = 0;
  std::vector<StreamState> streams_;
  std::vector<Running> running_;
  std::vector<double> launched_;  // per node: when the host has launched it; empty: at once
  std::vector<bool> finished_;    // per node
  std::vector<NodeId> cause_;     // per node: what finished last before it started
  Simulation result_;
};

}  // namespace

Simulation simulate(const Problem& problem, const Plan& plan) {
  return simulate(problem, plan, CommandOrder(plan.commands, problem.graph.node_count()));
}

Simulation simulate(const Problem& problem, const Plan& plan, const CommandOrder& order) {
  return Simulator(problem, plan, order).run();
}

std::vector<Overlap> overlaps(const Simulation& simulation) {
  const auto& runs = simulation.runs;
  std::vector<NodeId> by_start(runs.size());
  std::iota(by_start.begin(), by_start.end(), 0);
  std::ranges::stable_sort(by_start, {}, [&](NodeId node) { return runs[node].start; });
  std::vector<Overlap> pairs;
  std::vector<NodeId> running;
  for (const NodeId node : by_start) {
    if (runs[node].finish <= runs[node].start) continue;  // takes no time
    std::erase_if(running, [&](NodeId other) { return runs[other].finish <= runs[node].start; });
    for (const NodeId other : running) {
      const double until = std::min(runs[node].finish, runs[other].finish);
      pairs.push_back({std::min(node, other), std::max(node, other), until - runs[node].start});
    }
    running.push_back(node);
  }
  std::ranges::stable_sort(pairs, std::greater(), &Overlap::microseconds);
  return pairs;
}

void take_simulated_times(const Problem& problem, Plan& plan) {
  const Simulation simulation = simulate(problem, plan);
  for (std::size_t node = 0; node < plan.placements.size(); ++node) {
    plan.placements[node].start = simulation.runs[node].start;
    plan.placements[node].finish = simulation.runs[node].finish;
  }
  plan.makespan = simulation.makespan;
}

}  // namespace braid::scheduler
