// What holds of every plan: one list of properties, checked for every policy on the problems of one generator. A
// failure names the seed and the smallest problem that has it too.

#include <doctest/doctest.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>

#include "scheduler/check/simulator.h"
#include "tests/faults.h"
#include "tests/scheduler/oracle.h"
#include "tests/scheduler/schedules.h"

namespace braid::scheduler::testing {
namespace {

constexpr double kSumRounding = 1e-9;  // of sums of some hundred durations, as a share of the makespan

/// A policy's plan of a problem, and its simulated run.
struct Planned {
  Schedule schedule;
  Plan plan;
  Simulation simulation;
};

/// What a property is asked of.
struct PlannedCase : Planned {
  std::uint64_t seed;
  const Problem& problem;
  NamedPolicy policy;
  const std::map<std::string_view, Planned>& others;  ///< of the same problem, by the policies before this one

  const Cost& cost(NodeId node) const { return problem.costs.of(node, plan.placements[node].implementation); }
  double rounding() const { return kSumRounding * std::max(plan.makespan, simulation.makespan); }
  /// Whether a run takes as long as predicted: nothing slows nodes that keep within the capacity.
  bool predictable() const { return !problem.oversubscribes && problem.interference.empty(); }
};

/// Ends a property with what does not hold.
#define HOLDS(...) \
  if (!(__VA_ARGS__)) return #__VA_ARGS__

std::string complete_schedule(const PlannedCase& c) {
  const Schedule& schedule = c.schedule;
  std::vector<Interval> intervals;
  std::vector<double> stream_free(static_cast<std::size_t>(c.problem.all_streams()));
  std::vector<bool> started(static_cast<std::size_t>(c.problem.graph.node_count()));
  double makespan = 0;
  for (const NodeId node : schedule.order) {
    const Placement& place = schedule.placements[node];
    HOLDS(!started[node]);
    for (const NodeId before : c.problem.edges.predecessors(node)) {
      HOLDS(started[before]);
      HOLDS(schedule.placements[before].finish <= place.start);
    }
    HOLDS(stream_free[place.stream] <= place.start);
    const double duration = place.finish - place.start, alone = c.cost(node).duration;
    HOLDS(duration >= alone - c.rounding());
    HOLDS(c.problem.oversubscribes || duration <= alone + c.rounding());
    stream_free[place.stream] = place.finish;
    started[node] = true;
    makespan = std::max(makespan, place.finish);
    intervals.push_back({place.start, place.finish, c.cost(node).width});
  }
  HOLDS(std::ssize(intervals) == std::ranges::count(c.problem.graph.nodes(), false, &Node::is_view));
  HOLDS(schedule.makespan == makespan);
  HOLDS(c.problem.oversubscribes || peak_width(intervals) <= c.problem.capacity);
  HOLDS(c.plan.bound == lower_bound(c.problem));
  HOLDS(c.problem.oversubscribes || makespan >= c.plan.bound.bound - c.rounding());
  return "";
}

std::string resource_edges(const PlannedCase& c) {
  HOLDS(!c.problem.oversubscribes || c.schedule.resource_edges.empty());
  for (const auto& [before, after] : c.schedule.resource_edges) {
    HOLDS(c.schedule.placements[before].stream != c.schedule.placements[after].stream);
    HOLDS(!std::ranges::binary_search(c.problem.edges.predecessors(after), before));
  }
  return "";
}

std::string necessary_waits(const PlannedCase& c) {
  Relation required = required_order(c.problem.graph);
  for (const auto& [before, after] : c.plan.resource_edges) required[before].set(after);
  std::vector<NodeId> last(static_cast<std::size_t>(c.problem.all_streams()), kNoNode);
  for (const NodeId node : c.schedule.order) {
    NodeId& previous = last[c.schedule.placements[node].stream];
    if (previous != kNoNode) required[previous].set(node);
    previous = node;
  }
  close(required);
  bool deadlock = false;
  HOLDS(ordered_nodes(c.problem.graph, c.plan, deadlock) == required);
  HOLDS(!deadlock);

  Relation before(required.size());  // before[b][a]: required[a][b]
  for (const NodeId a : c.schedule.order) {
    for (const NodeId b : c.schedule.order) before[b].set(a, required[a][b]);
  }
  int crossings = 0;  // edges of the transitive reduction between streams
  for (const NodeId a : c.schedule.order) {
    for (const NodeId b : c.schedule.order) {
      if (!required[a][b] || c.plan.placements[a].stream == c.plan.placements[b].stream) continue;
      crossings += (required[a] & before[b]).none() ? 1 : 0;
    }
  }
  HOLDS(c.plan.commands.waits() == crossings);
  return "";
}

std::string verified(const PlannedCase& c) { return joined(verify_plan(c.problem.graph, c.problem.costs, c.plan)); }

std::string safe_by_brute_force(const PlannedCase& c) {
  HOLDS(SafetyOracle(c.problem.graph, c.problem.costs, c.plan).safe());
  return "";
}

std::string memory_sizes(const PlannedCase& c) {
  const MemoryUse use = memory_use(c.problem.graph, c.plan);
  HOLDS(c.plan.arena_bytes <= c.plan.naive_bytes);
  HOLDS(c.plan.live_bytes <= c.plan.arena_bytes);
  HOLDS(use.activations + use.gradients + use.inputs + use.workspaces == c.plan.live_bytes);
  return "";
}

/// Goes by the simulated run, and so is independent of the order that the commands promise.
std::string no_shared_bytes(const PlannedCase& c) {
  const StepGraph& graph = c.problem.graph;
  struct Lifetime {
    ValueId value;
    double begin, end;
  };
  std::vector<Lifetime> lifetimes;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.root != id || value.slot >= 0 || value.bytes() == 0) continue;
    const double begin = value.producer == kNoNode ? 0 : c.simulation.runs[value.producer].start;
    double end = value.kept ? c.simulation.makespan : begin;
    for (NodeId node = 0; node < graph.node_count(); ++node) {
      const auto reads = [&](ValueId input) { return graph.value(input).root == id; };
      if (graph.node(node).is_view || !std::ranges::any_of(graph.inputs(node), reads)) continue;
      end = std::max(end, c.simulation.runs[node].finish);
    }
    lifetimes.push_back({id, begin, end});
  }
  const auto end_of = [&](ValueId id) {
    return c.plan.offsets[id] + static_cast<std::int64_t>(graph.value(id).bytes());
  };
  for (const Lifetime& a : lifetimes) {
    for (const Lifetime& b : lifetimes) {
      const bool together = a.value < b.value && a.begin < b.end - c.rounding() && b.begin < a.end - c.rounding();
      if (!together || graph.value(b.value).reuses == a.value) continue;  // in place: one begins while the other ends
      const std::int64_t begin = std::max(c.plan.offsets[a.value], c.plan.offsets[b.value]);
      HOLDS(begin >= std::min(end_of(a.value), end_of(b.value)));
    }
  }
  return "";
}

std::string within_capacity_for_any_durations(const PlannedCase& c) {
  if (c.problem.oversubscribes) return "";
  Generator random(c.seed, 1);
  for (int trial = 0; trial < 5; ++trial) {
    std::vector<double> durations(static_cast<std::size_t>(c.problem.graph.node_count()));
    for (double& duration : durations) duration = random.below(4) == 0 ? 0 : random.uniform() * 10;
    HOLDS(peak_width(run(c.plan, c.problem.costs, durations)) <= c.problem.capacity);
  }
  return "";
}

std::string simulated_run(const PlannedCase& c) {
  const Simulation& simulation = c.simulation;
  double sum = 0, last = 0;
  for (const NodeId node : c.schedule.order) {
    const auto& [start, finish] = simulation.runs[node];
    HOLDS(finish - start >= c.cost(node).duration - c.rounding());
    for (const NodeId before : c.problem.edges.predecessors(node))
      HOLDS(simulation.runs[before].finish <= start + c.rounding());
    sum += c.cost(node).duration;
    last = std::max(last, finish);
  }
  HOLDS(simulation.makespan == last);
  HOLDS(simulation.makespan >= c.plan.bound.bound - c.rounding());
  HOLDS(!c.predictable() || simulation.makespan <= c.plan.makespan + c.rounding());
  HOLDS(std::ranges::max(simulation.busy) <= simulation.makespan + c.rounding());
  const auto used = std::ranges::count_if(c.plan.commands.streams, [](const auto& list) { return !list.empty(); });
  HOLDS(c.policy.policy != serial || used <= 1);
  HOLDS(used > 1 || std::abs(simulation.makespan - sum) <= c.rounding());

  double now = 0;  // the critical path runs from the start to the end without a gap
  for (const NodeId node : simulation.critical_path) {
    HOLDS(simulation.runs[node].start == now);
    now = simulation.runs[node].finish;
  }
  HOLDS(now == simulation.makespan);
  return "";
}

std::string no_slower_than_serial(const PlannedCase& c) {
  if (c.policy.policy != static_cast<Policy>(critical_path)) return "";
  HOLDS(!c.problem.interference.empty() || c.plan.makespan <= c.others.at("serial").plan.makespan + c.rounding());
  HOLDS(!c.problem.oversubscribes || std::abs(c.simulation.makespan - c.plan.makespan) <= c.rounding());
  return "";
}

std::string best_of_all(const PlannedCase& c) {
  if (c.policy.policy != automatic) return "";
  for (const auto& [name, other] : c.others) HOLDS(c.simulation.makespan <= other.simulation.makespan * (1 + 1e-8));
  HOLDS(c.plan.policy.starts_with("auto ("));
  const std::string kept = c.plan.policy.substr(6, c.plan.policy.size() - 7);
  HOLDS(c.others.at(kept).plan.commands.streams == c.plan.commands.streams);
  return "";
}

std::string same_from_json(const PlannedCase& c) {
  HOLDS(plan_from_json(to_json(c.plan), c.problem) == c.plan);
  return "";
}

std::string same_again(const PlannedCase& c) {
  if (c.seed % 8 != 0) return "";
  HOLDS(make_plan(c.problem, c.policy.policy, c.policy.name) == c.plan);
  return "";
}

struct Property {
  const char* name;
  std::string (*fault)(const PlannedCase&);
  int most_nodes = 1 << 20;  ///< what goes through all pairs takes long for more
};
constexpr int kSmall = 30;
constexpr Property kProperties[] = {
    {"its schedule is complete, topological, within capacity and no better than the bound", complete_schedule},
    {"only lack of capacity orders nodes that need not be in order", resource_edges},
    {"its waits order exactly what must be in order, and each is necessary", necessary_waits, kSmall},
    {"the verifier finds no fault", verified},
    {"it is safe by brute force", safe_by_brute_force, kSmall},
    {"its memory is classified, and no larger than it need be", memory_sizes},
    {"values in use at the same time of its run share no bytes", no_shared_bytes},
    {"concurrent nodes stay within capacity for any real durations", within_capacity_for_any_durations},
    {"its simulated run is as predicted or shorter, in order, and no faster than the bound", simulated_run},
    {"the critical path's is no slower than the serial one, and takes the time that it predicts",
     no_slower_than_serial},
    {"the automatic one is as fast as the best of the others, and names it", best_of_all},
    {"it comes back from JSON as it was", same_from_json},
    {"the same step gives the same plan", same_again},
};

/// Checks all properties of the plans of a random problem. Returns the first that does not hold, or an empty text.
std::string fault_of(std::uint64_t seed, int most_nodes, int least_nodes, std::uint64_t* plans = nullptr) {
  const Problem problem = random_problem(seed, most_nodes, least_nodes);
  std::map<std::string_view, Planned> others;
  for (const NamedPolicy& policy : kPolicies) {
    if (policy.policy == automatic && seed % 8 != 0) continue;
    const char* name = "it is planned";
    std::string fault;
    try {
      PlannedCase c{{}, seed, problem, policy, others};
      c.schedule = policy.policy(problem);
      c.plan = plan_schedule(problem, c.schedule, policy.name);
      c.simulation = simulate(problem, c.plan);
      for (const Property& property : kProperties) {
        if (problem.graph.node_count() > property.most_nodes) continue;
        name = property.name;
        if (fault = property.fault(c); !fault.empty()) break;
      }
      others.emplace(policy.name, std::move(static_cast<Planned&>(c)));
    } catch (const Error& error) {
      fault = error.what();
    }
    if (!fault.empty()) return message("policy ", policy.name, ": not so: ", name, ": ", fault);
    if (plans != nullptr) ++*plans;
  }
  return "";
}

/// The fault of the smallest random step that has one, with its seed.
template <class Fault>
std::string smallest(const Fault& fault_of_step) {
  for (int nodes = 1; nodes <= 12; ++nodes) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const std::string fault = fault_of_step(seed, nodes);
      if (!fault.empty()) return message(nodes, " nodes, seed ", seed, ": ", fault);
    }
  }
  return "none of at most 12 nodes";
}

/// A number from the environment, or another where it is not set.
std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  std::uint64_t number = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  BRAID_CHECK(error == std::errc() && stop == end, Error, "[test] expected a number in ", name, ", got '", text, "'");
  return number;
}

}  // namespace

// BRAID_RANDOM_DAGS=1000000 BRAID_RANDOM_SEED=5000 for a million others: scripts/nightly.sh
TEST_CASE("random steps are planned without faults by every policy on any number of streams") {
  constexpr std::uint64_t kGraphs = 2500;
  const std::uint64_t graphs = from_environment("BRAID_RANDOM_DAGS", std::max<std::uint64_t>(150, some_of(kGraphs)));
  const std::uint64_t first = from_environment("BRAID_RANDOM_SEED", 0);
  constexpr int kMostNodes[] = {12, kSmall, 80};
  std::uint64_t plans = 0;
  for (std::uint64_t seed = first; seed < first + graphs; ++seed) {
    const std::string fault = fault_of(seed, kMostNodes[seed % 3], 3, &plans);
    if (fault.empty()) continue;
    const std::string small = smallest([](std::uint64_t s, int nodes) { return fault_of(s, nodes, nodes); });
    FAIL("seed ", seed, ", up to ", kMostNodes[seed % 3], " nodes, ", fault, "\nThe smallest: ", small);
  }
  std::cout << "random plans: " << plans << " plans of " << graphs << " graphs from seed " << first << " on verified";
  if (graphs < kGraphs) std::cout << " (a release build verifies " << kGraphs << " graphs)";
  std::cout << '\n';
}

TEST_CASE("every policy plans an empty step") {
  const Problem problem = make_problem(StepGraph{}, Costs{}, 4, 2);
  for (const NamedPolicy& policy : kPolicies) {
    CAPTURE(policy.name);
    const Plan plan = make_plan(problem, policy.policy, policy.name);
    CHECK(plan.makespan == 0);
    CHECK(plan.arena_bytes == 0);
    CHECK(plan.commands.streams == std::vector<std::vector<Command>>(4));
    CHECK(plan_from_json(to_json(plan), problem) == plan);
  }
}

}  // namespace braid::scheduler::testing
