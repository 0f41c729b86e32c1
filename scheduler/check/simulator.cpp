#include "scheduler/check/simulator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace braid::scheduler {
namespace {

/// Simulates one rank. A stream that reaches a node that communicates waits for communicate().
class Simulator {
 public:
  Simulator(const Problem& problem, const Plan& plan, const CommandOrder& order)
      : problem_(problem),
        plan_(plan),
        order_(order),
        streams_(order.streams()),
        arrived_(static_cast<std::size_t>(problem.links), kNoStream),
        finished_(problem.graph.node_count()),
        cause_(problem.graph.node_count(), kNoNode) {
    result_.runs.resize(problem.graph.node_count());
    result_.busy.resize(order.streams());
    if (problem.host_microseconds > 0) set_launches();
  }

  static constexpr std::size_t kNoStream = std::numeric_limits<std::size_t>::max();

  /// Advances every stream to a launch, a node that communicates, or a wait for something that is still running.
  void advance_streams() {
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      StreamState& stream = streams_[s];
      const auto nodes = order_.launched(s);
      while (!stream.busy && stream.next < nodes.size() && advance(s, nodes[stream.next])) {
      }
    }
  }
  /// Whether a node is about to communicate over a link.
  bool has_arrived(std::size_t link) const { return arrived_[link] != kNoStream; }
  /// The rank with which that node exchanges a message; kNoPeer if it is in a collective.
  static constexpr std::size_t kNoPeer = std::numeric_limits<std::size_t>::max();
  std::size_t peer(std::size_t link) const {
    const std::size_t s = arrived_[link];
    const auto& message = problem_.graph.communication(order_.launched(s)[streams_[s].next]).exchanged;
    return message.has_value() ? static_cast<std::size_t>(message->peer) : kNoPeer;
  }
  /// Starts that node.
  void communicate(std::size_t link) {
    const std::size_t s = std::exchange(arrived_[link], kNoStream);
    launch(s, order_.launched(s)[streams_[s].next]);
  }
  /// The time of the next end if nothing else starts; infinity if nothing runs.
  double next_end() {
    set_rates();
    return running_.empty() ? std::numeric_limits<double>::infinity()
                            : std::ranges::min(running_, {}, &Running::finish).finish;
  }
  /// Ends what ends now. `now` is at least the time of the last call, and at most next_end().
  void finish_nodes(double now) {
    now_ = now;
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

  Simulation result() && {
    for (const Simulation::Run& run : result_.runs) result_.makespan = std::max(result_.makespan, run.finish);
    trace_back();
    return std::move(result_);
  }

 private:
  static constexpr double kRounding = 1e-12;  // relative

  /// The host launches the nodes in the order in which they should start.
  void set_launches() {
    std::vector<NodeId> nodes = problem_.graph.launched_nodes();
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

  /// Passes one wait ahead of the node, or launches it. False if a wait is pending.
  bool advance(std::size_t s, NodeId node) {
    StreamState& stream = streams_[s];
    const auto awaited = order_.awaited(node);
    if (stream.awaited == awaited.size()) {
      if (!launched_.empty() && launched_[node] > now_ * (1 + kRounding)) {
        start(s, kNoNode, launched_[node] - now_);
        return true;
      }
      if (const int link = problem_.costs.link(node); link == kNoLink) {
        launch(s, node);
      } else {
        arrived_[link] = s;
        stream.busy = true;
      }
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

  void launch(std::size_t s, NodeId node) {
    StreamState& stream = streams_[s];
    result_.runs[node].start = now_;
    cause_[node] = stream.gate;
    start(s, node, cost(node).duration);
    stream.awaited = 0;
    ++stream.next;
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

  /// The factor by which concurrent nodes slow it down.
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

  /// Follows what each node waited for, back from the node that finishes last.
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
  std::vector<std::size_t> arrived_;  // per link: the stream whose node is about to communicate, or kNoStream
  std::vector<Running> running_;
  std::vector<double> launched_;  // per node: when the host has launched it; empty: at once
  std::vector<bool> finished_;    // per node
  std::vector<NodeId> cause_;     // per node: what finished last before it started
  Simulation result_;
};

/// Starts what can communicate over a link: a collective once all ranks have arrived, a message once both have. One
/// rank alone waits for no other. Returns whether anything has started.
bool communicate(std::span<Simulator> ranks, std::size_t link) {
  bool starts = false;
  for (std::size_t rank = 0; rank < ranks.size() && ranks.size() > 1; ++rank) {
    if (!ranks[rank].has_arrived(link)) continue;
    const std::size_t peer = ranks[rank].peer(link);
    if (peer >= ranks.size() || peer == rank || !ranks[peer].has_arrived(link) || ranks[peer].peer(link) != rank)
      continue;
    ranks[rank].communicate(link);
    ranks[peer].communicate(link);
    starts = true;
  }
  const auto is_ready = [&](const Simulator& rank) {
    return rank.has_arrived(link) && (ranks.size() == 1 || rank.peer(link) == Simulator::kNoPeer);
  };
  if (!std::ranges::all_of(ranks, is_ready)) return starts;
  for (Simulator& rank : ranks) rank.communicate(link);
  return true;
}

/// Runs all ranks to the end.
void run(std::span<Simulator> ranks, std::size_t links) {
  while (true) {
    for (bool starts = true; std::exchange(starts, false);) {
      for (Simulator& rank : ranks) rank.advance_streams();
      for (std::size_t link = 0; link < links; ++link) starts |= communicate(ranks, link);
    }
    double now = std::numeric_limits<double>::infinity();
    for (Simulator& rank : ranks) now = std::min(now, rank.next_end());
    if (std::isinf(now)) break;
    for (Simulator& rank : ranks) rank.finish_nodes(now);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (std::size_t link = 0; link < links; ++link) {
      BRAID_CHECK(!ranks[rank].has_arrived(link), PlanError, "[simulate] rank ", rank, " waits on link ", link,
                  " for others that do not come");
    }
  }
}

}  // namespace

Simulation simulate(const Problem& problem, const Plan& plan) {
  return simulate(problem, plan, CommandOrder(plan.commands, problem.graph.node_count()));
}

Simulation simulate(const Problem& problem, const Plan& plan, const CommandOrder& order) {
  Simulator rank(problem, plan, order);
  run({&rank, 1}, static_cast<std::size_t>(problem.links));
  return std::move(rank).result();
}

std::vector<Simulation> simulate(std::span<const RankPlan> ranks) {
  std::vector<CommandOrder> orders;
  std::vector<Simulator> simulators;
  int links = 0;
  orders.reserve(ranks.size());
  for (const RankPlan& rank : ranks) {
    orders.emplace_back(rank.plan->commands, rank.problem->graph.node_count());
    simulators.emplace_back(*rank.problem, *rank.plan, orders.back());
    BRAID_CHECK(&rank == ranks.data() || rank.problem->links == links, PlanError,
                "[simulate] expected as many links on all ranks, got ", links, " and ", rank.problem->links);
    links = rank.problem->links;
  }
  run(simulators, static_cast<std::size_t>(links));
  std::vector<Simulation> results;
  for (Simulator& simulator : simulators) results.push_back(std::move(simulator).result());
  return results;
}

Problem slowed(Problem problem, double times) {
  for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
    if (problem.costs.link(node) != kNoLink) continue;
    const auto count = static_cast<int>(problem.costs.of(node).size());
    for (int i = 0; i < count; ++i) problem.costs.set_duration(node, i, times * problem.costs.of(node, i).duration);
  }
  return problem;
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
