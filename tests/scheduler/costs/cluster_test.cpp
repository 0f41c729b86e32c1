// Ranks of a cluster: their links, and all of them simulated at once.

#include "scheduler/costs/cluster.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/comm/collective_call.h"
#include "scheduler/check/simulator.h"
#include "tests/scheduler/random_graph.h"

using namespace braid;
using namespace braid::scheduler;

TEST_CASE("ranks have the link of their host, and across hosts the slower one of host and network") {
  Cluster cluster{.name = "box",
                  .hosts = 8,
                  .devices = 4,
                  .inside = {.latency_seconds = 1e-6, .bytes_per_second = 100e9},
                  .network = {.latency_seconds = 5e-6, .bytes_per_second = 20e9},
                  .hosts_per_switch = 4,
                  .oversubscription = 2};
  CHECK(link_of(cluster, 1) == Link{});
  CHECK(link_of(cluster, 4) == cluster.inside);
  CHECK(link_of(cluster, 5) == cluster.network);
  CHECK(link_of(cluster, 16) == cluster.network);
  CHECK(link_of(cluster, 17).bytes_per_second == 10e9);
  CHECK(link_of(cluster, 32).latency_seconds == 5e-6);
  // Groups within a host; one rank of each host, where four groups share its network; and two of each host.
  CHECK(link_of(cluster, 16, {.ranks = 4}) == cluster.inside);
  CHECK(link_of(cluster, 16, {.ranks = 2, .stride = 2}) == cluster.inside);
  CHECK(link_of(cluster, 16, {.ranks = 4, .stride = 4}) == Link{5e-6, 5e9});
  CHECK(link_of(cluster, 16, {.ranks = 2, .stride = 8}) == Link{5e-6, 5e9});
  CHECK(link_of(cluster, 16, {.ranks = 8, .stride = 2}) == Link{5e-6, 10e9});
  CHECK(link_of(cluster, 32, {.ranks = 32}).bytes_per_second == 10e9);
  cluster.has_servers = true;
  CHECK(link_of(cluster, 4).server_share == 1);
  CHECK(link_of(cluster, 16).server_share ==
        4 * 0.75);  // four ranks share the network, and a quarter stays on the host
  CHECK(link_of(cluster, 16, {.ranks = 4, .stride = 4}).server_share == 0.75);
  const CollectiveCall sum{.kind = CollectiveCall::Kind::all_reduce, .count = 1'000'000, .dtype = DType::f32};
  CHECK(seconds(sum, 16, link_of(cluster, 16)) == doctest::Approx(10e-6 + 2 * 3 * 4e6 / 20e9));
  CHECK(sent_bytes({{16}, {sum}}, link_of(cluster, 16)) == 8e6);
  cluster.has_servers = false;
  cluster.inside = {.latency_seconds = 9e-6, .bytes_per_second = 7e9};
  CHECK(link_of(cluster, 8) == cluster.inside);
  CHECK_THROWS_WITH_AS(link_of(cluster, 33),
                       "[cluster] expected 1 to 32 ranks on 'box', which has 8 hosts with 4 devices each, got 33",
                       Error);
}

TEST_CASE("known clusters have devices and links, and others are an error that lists them") {
  for (const std::string& name : known_cluster_names()) {
    const Cluster cluster = known_cluster(name);
    CHECK(!cluster.device.empty());
    if (cluster.ranks() > 1) CHECK_NOTHROW(check_link(link_of(cluster, cluster.ranks())));
  }
  CHECK_THROWS_WITH_AS(known_cluster("dgx"),
                       "[cluster] expected one of dgx_h100, pcie_box, ethernet_25g, p100_nodes, p100x4x4, got 'dgx'",
                       Error);
}

namespace {

Problem problem_of(std::uint64_t seed) {
  const scheduler::testing::RandomStep step = scheduler::testing::random_step(seed);
  return make_problem(step.graph, step.costs, 3, step.capacity);
}

}  // namespace

TEST_CASE("one rank stands for all that run alike") {
  int waiting = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const Problem problem = problem_of(seed);
    if (problem.links == 0) continue;
    const Problem slow = slowed(problem, 1.5);
    const Plan plan = plan_commands(problem, critical_path(problem), "critical_path");
    const Simulation alone = simulate(problem, plan);

    std::vector<RankPlan> ranks(64, {&problem, &plan});
    for (const Simulation& rank : simulate(ranks)) CHECK(rank.runs == alone.runs);

    for (std::size_t rank = 0; rank < ranks.size(); rank += 9) ranks[rank].problem = &slow;
    const std::vector<Simulation> all = simulate(ranks);
    const std::vector<Simulation> roles = simulate(std::vector<RankPlan>{{&slow, &plan}, {&problem, &plan}});
    for (std::size_t rank = 0; rank < all.size(); ++rank) CHECK(all[rank].runs == roles[rank % 9 == 0 ? 0 : 1].runs);

    // Collectives start at the same time on all ranks, and never before the slowest arrives.
    for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
      if (problem.costs.link(node) == kNoLink) continue;
      const auto i = static_cast<std::size_t>(node);
      CHECK(roles[0].runs[i].start == roles[1].runs[i].start);
    }
    waiting += roles[1].makespan > alone.makespan;
  }
  CHECK(waiting > 10);
}

TEST_CASE("a rank that waits for others that do not come is an error") {
  std::uint64_t seed = 0;
  while (problem_of(seed).links != 1) ++seed;
  const Problem problem = problem_of(seed);
  const Plan plan = plan_commands(problem, critical_path(problem), "critical_path");
  Plan fewer = plan;
  auto& sending = fewer.commands.streams.back();
  const auto last = std::ranges::find_if(sending.rbegin(), sending.rend(),
                                         [](const Command& command) { return command.kind == Command::Kind::launch; });
  REQUIRE(last != sending.rend());
  sending.erase(std::next(last).base());
  CHECK_THROWS_WITH_AS(simulate(std::vector<RankPlan>{{&problem, &fewer}, {&problem, &plan}}),
                       "[simulate] rank 1 waits on link 0 for others that do not come", PlanError);
}
