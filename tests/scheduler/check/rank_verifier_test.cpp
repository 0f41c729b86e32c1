// Plans of several ranks: those that run together are accepted, and every change of one rank is found.

#include "scheduler/check/rank_verifier.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "scheduler/command_order.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

using Direction = Message::Direction;

struct TogetherAttributes {
  std::vector<OutputDesc> outputs;
  std::int64_t ranks, kind, count, peer, tag;  // the kind of a collective, or kSend or kReceive
  std::int64_t stride = 1;
  static constexpr std::string_view kNames[] = {"outputs", "ranks", "kind", "count", "peer", "tag", "stride"};
};
constexpr std::int64_t kSend = -1, kReceive = -2;

/// The communication of ranks that a test describes.
class Together final : public OpWith<Together, TogetherAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "together"; }
  void infer(std::span<const ValueDesc>, std::vector<OutputDesc>& outputs) const override {
    outputs.insert(outputs.end(), attributes_.outputs.begin(), attributes_.outputs.end());
  }
  Communication communication(std::span<const ValueDesc>, std::span<const ValueDesc>) const override {
    const auto& [outputs, ranks, kind, count, peer, tag, stride] = attributes();
    const RankGroup members{.ranks = ranks, .stride = stride};
    if (kind >= 0) {
      const auto named = static_cast<CollectiveCall::Kind>(kind);
      return {members, {{.kind = named, .count = count, .dtype = tag == 0 ? DType::f32 : DType::f64}}, {}};
    }
    return {members,
            {},
            Message{kind == kSend ? Direction::send : Direction::receive, static_cast<int>(peer), static_cast<int>(tag),
                    count}};
  }
};

/// Something that ranks do together: all of them in groups, or two.
struct Meeting {
  RankGroup group;
  std::int64_t kind = 0;  // kind of a collective; kSend: from `from` to `to`
  std::int64_t count = 0, tag = 0;
  int from = 0, to = 0;

  bool includes(int rank) const { return kind >= 0 || rank == from || rank == to; }
};

/// One rank's side of a meeting, which a test may change.
using Attributes = TogetherAttributes;

Attributes attributes_of(const Meeting& meeting, int rank) {
  const auto [ranks, stride] = meeting.group;
  Attributes made{{}, ranks, meeting.kind, meeting.count, 0, meeting.tag, stride};
  if (meeting.kind == kSend) {
    made.kind = rank == meeting.from ? kSend : kReceive;
    made.peer = rank == meeting.from ? meeting.to : meeting.from;
  }
  return made;
}

/// The graph of a rank: nodes that compute between those that meet others, in the order of the meetings.
struct RankStep {
  Problem problem;
  std::vector<NodeId> meetings;
};

RankStep make_step(const std::vector<Attributes>& meetings, std::uint64_t seed, int streams) {
  Generator random(seed, 3);
  StepGraph graph;
  Costs costs;
  std::vector<ValueId> values{graph.add_input(bytes_desc(300))};
  std::vector<NodeId> nodes;
  const auto add_node = [&](OpPtr op, const Cost& cost) {
    std::vector<ValueId> inputs{values[random.below(static_cast<std::uint32_t>(values.size()))]};
    if (random.below(2) == 0) inputs.push_back(values.back());
    values.push_back(graph.add_node(std::move(op), inputs));
    costs.add(std::span(&cost, 1));
  };
  for (const Attributes& meeting : meetings) {
    for (std::uint32_t more = random.below(3); more > 0; --more) {
      add_node(std::make_shared<TestOp>(std::vector{bytes_output(1 + random.below(1000))}),
               {.width = 1, .duration = 1.0 + random.below(9)});
    }
    Attributes own = meeting;
    own.outputs = {bytes_output(1 + random.below(1000))};
    nodes.push_back(graph.node_count());
    add_node(std::make_shared<Together>(own),
             {.width = static_cast<int>(seed % 2), .duration = 1.0 + random.below(9), .link = 0});
    if (nodes.size() > 1) graph.run_after(nodes.back(), nodes[nodes.size() - 2]);
  }
  add_node(std::make_shared<TestOp>(std::vector{bytes_output(8)}), {.width = 1, .duration = 1});
  graph.keep(values.back());
  return {make_problem(std::move(graph), std::move(costs), streams, 2), std::move(nodes)};
}

/// A training of several ranks, with a plan for each.
struct Ranks {
  std::vector<Meeting> meetings;
  std::vector<std::vector<Attributes>> attributes;  // per rank
  std::vector<RankStep> steps;
  std::vector<Plan> plans;
  std::vector<std::uint64_t> seeds;
  int streams = 1;
  Policy policy = nullptr;

  int count() const { return static_cast<int>(plans.size()); }
  void plan(std::size_t rank) {
    steps[rank] = make_step(attributes[rank], seeds[rank], streams);
    plans[rank] = make_plan(steps[rank].problem, policy, "test");
  }
  std::vector<std::string> faults() const {
    std::vector<RankPlan> roles;
    std::vector<std::int32_t> role;
    for (std::size_t r = 0; r < plans.size(); ++r) {
      roles.push_back({&steps[r].problem, &plans[r]});
      role.push_back(static_cast<std::int32_t>(r));
    }
    return verify_ranks(roles, role);
  }
};

Ranks random_ranks(std::uint64_t seed) {
  Generator random(seed, 4);
  const auto below = [&](int bound) { return static_cast<int>(random.below(static_cast<std::uint32_t>(bound))); };
  const int ranks = 2 + below(7);
  const bool alike = below(2) == 0;
  Ranks made;
  made.streams = 1 + below(3);
  made.policy =
      std::vector<Policy>{serial, round_robin, critical_path, resource_order}[static_cast<std::size_t>(below(4))];
  for (int i = 3 + below(4); i > 0; --i) {
    RankGroup group{.ranks = ranks};
    if (const int size = 2 + below(3); ranks % size == 0 && below(2) == 0) {
      const int groups = ranks / size, stride = 1 + below(groups);
      group = {.ranks = size, .stride = groups % stride == 0 ? stride : 1};
    }
    Meeting meeting{.group = group, .kind = below(6), .count = 1 + below(3), .tag = below(2)};
    if (!alike && below(2) == 0) {
      meeting.kind = kSend;
      meeting.group = {.ranks = ranks};
      meeting.tag = i;
      meeting.from = below(ranks);
      meeting.to = (meeting.from + 1 + below(ranks - 1)) % ranks;
    }
    made.meetings.push_back(meeting);
  }
  made.steps.resize(static_cast<std::size_t>(ranks));
  made.plans.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    made.seeds.push_back(alike ? seed : seed * 10 + static_cast<std::uint64_t>(rank));
    std::vector<Attributes>& own = made.attributes.emplace_back();
    for (const Meeting& meeting : made.meetings) {
      if (meeting.includes(rank)) own.push_back(attributes_of(meeting, rank));
    }
    made.plan(static_cast<std::size_t>(rank));
  }
  return made;
}

/// Changes one rank. False if it has nothing of the kind.
class RankMutator {
 public:
  RankMutator(Ranks& ranks, Generator& random)
      : ranks_(ranks), random_(random), rank_(random.below(static_cast<std::uint32_t>(ranks.count()))) {}

  bool swap_meetings() {
    auto& nodes = ranks_.steps[rank_].meetings;
    if (nodes.size() < 2) return false;
    const std::size_t i = random_.below(static_cast<std::uint32_t>(nodes.size() - 1));
    const auto& own = ranks_.attributes[rank_];
    const bool in_other_groups = own[i].ranks != own[i + 1].ranks || own[i].stride != own[i + 1].stride;
    if (in_other_groups || (own[i].kind < 0 && own[i + 1].kind < 0)) return false;  // either order may be right
    Command *first = find(nodes[i]), *second = find(nodes[i + 1]);
    std::swap(*first, *second);
    return true;
  }
  bool lose() {
    return change([&](std::vector<Attributes>& own, std::size_t i) { own.erase(own.begin() + static_cast<long>(i)); });
  }
  bool repeat() {
    return change(
        [&](std::vector<Attributes>& own, std::size_t i) { own.insert(own.begin() + static_cast<long>(i), own[i]); });
  }
  bool other_count() {
    return change([](std::vector<Attributes>& own, std::size_t i) { own[i].count += 7; });
  }
  bool other_tag_or_dtype() {
    return change([](std::vector<Attributes>& own, std::size_t i) {
      own[i].tag = own[i].kind >= 0 ? 1 - own[i].tag : own[i].tag + 40;
    });
  }
  bool other_op() {
    return change([&](std::vector<Attributes>& own, std::size_t i) {
      own[i].kind = own[i].kind >= 0 ? (own[i].kind + 1) % 6 : own[i].kind == kSend ? kReceive : kSend;
    });
  }
  bool other_members() {
    return change([&](std::vector<Attributes>& own, std::size_t i) {
      if (own[i].kind >= 0) {
        (random_.below(2) == 0 ? own[i].ranks : own[i].stride) += 1;
      } else {
        own[i].peer = own[i].ranks;
      }
    });
  }
  bool two_streams() {
    auto& [problem, nodes] = ranks_.steps[rank_];
    Plan& plan = ranks_.plans[rank_];
    if (nodes.size() < 2 || plan.commands.streams.size() < 2) return false;
    const NodeId node = nodes[random_.below(static_cast<std::uint32_t>(nodes.size()))];
    int& stream = plan.placements[static_cast<std::size_t>(node)].stream;
    const Command moved = *find(node);
    std::erase(plan.commands.streams[static_cast<std::size_t>(stream)], moved);
    stream = (stream + 1) % static_cast<int>(plan.commands.streams.size());
    plan.commands.streams[static_cast<std::size_t>(stream)].push_back(moved);
    return true;
  }
  /// A node that runs during a communication writes to the memory of its result.
  bool bytes_in_flight() {
    auto& [problem, nodes] = ranks_.steps[rank_];
    Plan& plan = ranks_.plans[rank_];
    const CommandOrder order(plan.commands, problem.graph.node_count());
    for (const NodeId node : nodes) {
      for (NodeId other = 0; other < problem.graph.node_count(); ++other) {
        if (other == node || order.before(node, other) || order.before(other, node)) continue;
        plan.offsets[static_cast<std::size_t>(problem.graph.output(other, 0))] =
            plan.offsets[static_cast<std::size_t>(problem.graph.output(node, 0))];
        plan.arena_bytes += 1024;
        return true;
      }
    }
    return false;
  }

 private:
  Command* find(NodeId node) {
    Plan& plan = ranks_.plans[rank_];
    auto& commands =
        plan.commands.streams[static_cast<std::size_t>(plan.placements[static_cast<std::size_t>(node)].stream)];
    return &*std::ranges::find(commands, Command{Command::Kind::launch, node});
  }

  template <class Change>
  bool change(const Change& what) {
    std::vector<Attributes>& own = ranks_.attributes[rank_];
    if (own.empty()) return false;
    what(own, random_.below(static_cast<std::uint32_t>(own.size())));
    ranks_.plan(rank_);
    return true;
  }

  Ranks& ranks_;
  Generator& random_;
  std::size_t rank_;
};

}  // namespace

TEST_CASE("plans of ranks that run together are accepted, and every change of one rank is found") {
  struct Mutation {
    const char* name;
    bool (RankMutator::*apply)();
    bool names_both = true;  // ranks; the others are faults within one
  };
  const Mutation mutations[] = {{"swapped", &RankMutator::swap_meetings, false},
                                {"lost", &RankMutator::lose},
                                {"repeated", &RankMutator::repeat},
                                {"another count", &RankMutator::other_count},
                                {"another tag or dtype", &RankMutator::other_tag_or_dtype},
                                {"another op", &RankMutator::other_op},
                                {"other members", &RankMutator::other_members, false},
                                {"a link on two streams", &RankMutator::two_streams, false},
                                {"bytes in flight", &RankMutator::bytes_in_flight, false}};
  std::map<std::string, int> found;
  const auto cases = static_cast<std::uint64_t>(some_of(10'000));
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    Ranks ranks = random_ranks(seed);
    CAPTURE(seed);
    const std::vector<std::string> none = ranks.faults();
    REQUIRE_MESSAGE(none.empty(), none.front());
    Generator random(seed, 5);
    const Mutation& mutation = mutations[seed % std::size(mutations)];
    if (!(RankMutator(ranks, random).*mutation.apply)()) continue;
    CAPTURE(std::string(mutation.name));
    const std::vector<std::string> faults = ranks.faults();
    REQUIRE(!faults.empty());
    CAPTURE(faults.front());
    const std::size_t first = faults.front().find("rank "), second = faults.front().find("rank ", first + 1);
    if (mutation.names_both) {
      CHECK(faults.front().find("node ") != std::string::npos);
      CHECK(second != std::string::npos);
    }
    ++found[mutation.name];
  }
  for (const Mutation& mutation : mutations) CHECK(found[mutation.name] > static_cast<int>(cases) / 30);
}

TEST_CASE("what ranks do together is checked with their names") {
  const auto faults = [](std::vector<std::vector<Attributes>> attributes) {
    Ranks ranks;
    ranks.policy = serial;
    ranks.attributes = std::move(attributes);
    ranks.steps.resize(ranks.attributes.size());
    ranks.plans.resize(ranks.attributes.size());
    ranks.seeds.assign(ranks.attributes.size(), 8);
    for (std::size_t r = 0; r < ranks.attributes.size(); ++r) ranks.plan(r);
    const std::vector<std::string> found = ranks.faults();
    return found.empty() ? "" : found.front();
  };
  const Attributes sum{{}, 2, 0, 5, 0, 0}, send{{}, 2, kSend, 9, 1, 3}, receive{{}, 2, kReceive, 9, 0, 3};
  Attributes longer = sum, later = receive, back = send;
  longer.count = 6;
  later.tag = 4;
  back.peer = 0;
  CHECK(faults({{sum, send}, {sum, receive}}) == "");
  CHECK(faults({{sum}, {longer}}) ==
        "node 2 'together' of rank 0 (all_reduce of 5 f32) meets node 2 'together' of rank 1 "
        "(all_reduce of 6 f32) on link 0 among 2 ranks.");
  CHECK(faults({{send}, {later}}) ==
        "node 2 'together' of rank 0 (send of 9 bytes to rank 1, tag 3) meets node 2 'together' "
        "of rank 1 (receive of 9 bytes from rank 0, tag 4).");
  CHECK(faults({{send}, {back}}) ==
        "node 2 'together' of rank 0 (send of 9 bytes to rank 1, tag 3) waits for ever for rank "
        "1, which waits in node 2 'together' of rank 1 (send of 9 bytes to rank 0, tag 3).");
  CHECK(faults({{sum}, {}}) ==
        "node 2 'together' of rank 0 (all_reduce of 5 f32) waits for ever for rank 1, which has ended.");
  CHECK(faults({{sum}, {sum}, {sum}}) ==
        "node 2 'together' of rank 2 (all_reduce of 5 f32) is among 2 ranks up to 3, but there are 3.");
  Attributes far = sum;
  far.stride = 2;
  CHECK(faults({{sum}, {sum}, {sum}, {sum}}) == "");
  CHECK(faults({{sum, far}, {sum, far}, {sum, far}, {sum, far}}) == "");
  CHECK(faults({{sum}, {far}, {sum}, {far}}) ==
        "node 2 'together' of rank 0 (all_reduce of 5 f32) waits for ever for rank 1, which has ended.");
}

TEST_CASE("1,024 ranks are verified, with one plan for all or one for each") {
  std::vector<Attributes> meetings;
  for (int i = 0; i < 50; ++i) meetings.push_back({{}, 1024, 0, 1000 + i, 0, 0});
  const RankStep step = make_step(meetings, 6, 2);
  const Plan plan = make_plan(step.problem, round_robin, "round_robin");
  std::vector<RankPlan> roles(1024, {&step.problem, &plan});
  std::vector<std::int32_t> role(roles.size());
  CHECK(verify_ranks(std::span(roles).first(1), role).empty());
  std::iota(role.begin(), role.end(), 0);
  CHECK(verify_ranks(roles, role).empty());

  meetings[30].count += 1;
  const RankStep other = make_step(meetings, 6, 2);
  roles[777] = {&other.problem, &plan};
  const std::vector<std::string> faults = verify_ranks(roles, role);
  REQUIRE(!faults.empty());
  CHECK(faults.front().find("of rank 777 (all_reduce of 1031 f32)") != std::string::npos);
}

}  // namespace braid::scheduler::testing
