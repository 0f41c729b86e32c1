#include "scheduler/check/rank_verifier.h"

#include <algorithm>
#include <numeric>

namespace braid::scheduler {
namespace {

constexpr std::size_t kMostFaults = 20;

/// What the ranks of a role have in common.
struct Role : RankPlan {
  std::vector<Communication> communications;  // per node
  std::vector<std::int32_t> numbers;          // per collective: its place among them, in recording order
};

/// The progress of a rank.
struct Rank {
  const Role* role;
  std::vector<std::size_t> done;      // per stream: its commands
  std::vector<bool> recorded;         // per event
  std::vector<NodeId> communicating;  // per link: the node that waits there for other ranks, or kNoNode
  std::vector<std::size_t> stream;    // per link: of that node
};

class Play {
 public:
  Play(std::span<const Role> roles, std::span<const std::int32_t> role_of) {
    for (const std::int32_t role : role_of) {
      links_ = std::max(links_, static_cast<std::size_t>(roles[role].problem->links));
    }
    for (const std::int32_t role : role_of) {
      const CommandLists& commands = roles[role].plan->commands;
      ranks_.push_back({&roles[role], std::vector<std::size_t>(commands.streams.size()),
                        std::vector<bool>(commands.events), std::vector<NodeId>(links_, kNoNode),
                        std::vector<std::size_t>(links_)});
    }
  }

  std::vector<std::string> run() {
    for (Rank& rank : ranks_) advance(rank);
    bool met = true;
    while (std::exchange(met, false)) {
      for (std::size_t link = 0; link < links_; ++link) {
        for (std::size_t r = 0; r < ranks_.size(); ++r) met |= collective(r, link) || exchange(r, link);
      }
      if (!faults_.empty()) return std::move(faults_);  // later ones would follow from these
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) check_end(r);
    return std::move(faults_);
  }

 private:
  template <class... Parts>
  void fault(const Parts&... parts) {
    if (faults_.size() < kMostFaults) faults_.push_back(message(parts...));
  }

  NodeId at(std::size_t rank, std::size_t link) const { return ranks_[rank].communicating[link]; }
  const Communication& communication(std::size_t rank, NodeId node) const {
    return ranks_[rank].role->communications[node];
  }
  std::int32_t number(std::size_t rank, NodeId node) const { return ranks_[rank].role->numbers[node]; }
  std::string describe(std::size_t rank, NodeId node) const {
    return message("node ", node, " '", ranks_[rank].role->problem->graph.node(node).op->name(), "' of rank ", rank,
                   " (", communication(rank, node).text(), ')');
  }

  /// Advances all streams of a rank as far as possible without other ranks.
  void advance(Rank& rank) {
    const auto& streams = rank.role->plan->commands.streams;
    for (bool moves = true; std::exchange(moves, false);) {
      for (std::size_t s = 0; s < streams.size(); ++s) {
        while (rank.done[s] < streams[s].size() && step(rank, s, streams[s][rank.done[s]])) moves = true;
      }
    }
  }

  /// False if the command has to wait.
  bool step(Rank& rank, std::size_t s, const Command& command) {
    const auto index = static_cast<std::size_t>(command.index);
    if (command.kind == Command::Kind::wait && !rank.recorded[index]) return false;
    if (command.kind == Command::Kind::record) rank.recorded[index] = true;
    if (command.kind == Command::Kind::launch && !rank.role->communications[index].empty()) {
      const auto link = static_cast<std::size_t>(rank.role->problem->costs.link(command.index));
      rank.communicating[link] = command.index;
      rank.stream[link] = s;
      return false;
    }
    ++rank.done[s];
    return true;
  }

  void pass(std::size_t rank, std::size_t link) {
    Rank& its = ranks_[rank];
    its.communicating[link] = kNoNode;
    ++its.done[its.stream[link]];
    advance(its);
  }

  /// The ranks that a rank's collective is among, in ascending order (Communicator::among).
  std::vector<std::size_t> members(std::size_t rank, NodeId node) const {
    const RankGroup group = communication(rank, node).group;
    const auto count = static_cast<std::size_t>(group.ranks), stride = static_cast<std::size_t>(group.stride);
    std::vector<std::size_t> list;
    const std::size_t first = rank / (count * stride) * count * stride + rank % stride;
    for (std::size_t i = 0; i < count; ++i) list.push_back(first + i * stride);
    return list;
  }

  /// The first of the members that is in no collective of theirs; the number of ranks if all are in one.
  std::size_t first_absent(std::span<const std::size_t> list, std::size_t link) const {
    for (const std::size_t r : list) {
      const NodeId node = at(r, link);
      if (node == kNoNode || communication(r, node).calls.empty() || !std::ranges::equal(members(r, node), list)) {
        return r;
      }
    }
    return ranks_.size();
  }

  /// Passes the collective of a rank if it is the first of the members, and all have reached it.
  bool collective(std::size_t rank, std::size_t link) {
    const NodeId own = at(rank, link);
    if (own == kNoNode || communication(rank, own).calls.empty()) return false;
    const std::vector<std::size_t> list = members(rank, own);
    if (list.back() >= ranks_.size()) {
      fault(describe(rank, own), " is among ", list.size(), " ranks up to ", list.back(), ", but there are ",
            ranks_.size(), '.');
      return false;
    }
    if (list.front() != rank || first_absent(list, link) < ranks_.size()) return false;
    for (const std::size_t r : list) {
      const NodeId node = at(r, link);
      if (communication(r, node) == communication(rank, own) && number(r, node) == number(rank, own)) continue;
      fault(describe(rank, own), " meets ", describe(r, node), " on link ", link,
            number(r, node) == number(rank, own)
                ? message(" among ", ranks_.size(), " ranks.")
                : message(": these are the ranks' collectives ", number(rank, own), " and ", number(r, node), '.'));
      return false;
    }
    for (const std::size_t r : list) pass(r, link);
    return true;
  }

  /// Passes a message of this rank if the other rank has reached its side.
  bool exchange(std::size_t rank, std::size_t link) {
    const NodeId node = at(rank, link);
    if (node == kNoNode || !communication(rank, node).exchanged.has_value()) return false;
    const Message& own = *communication(rank, node).exchanged;
    if (own.direction == Message::Direction::receive) return false;  // the sender's call passes it
    const auto peer = static_cast<std::size_t>(own.peer);            // out of range if it is negative
    if (peer >= ranks_.size() || peer == rank) {
      fault(describe(rank, node), " goes to a rank that is not there.");
      return false;
    }
    const NodeId other = at(peer, link);
    if (other == kNoNode || !communication(peer, other).exchanged.has_value()) return false;
    const Message& its = *communication(peer, other).exchanged;
    if (its.direction != Message::Direction::receive || its.peer != static_cast<int>(rank)) return false;
    if (own.tag != its.tag || own.bytes != its.bytes) {
      fault(describe(rank, node), " meets ", describe(peer, other), '.');
      return false;
    }
    pass(rank, link);
    pass(peer, link);
    return true;
  }

  /// A rank that has not ended waits for another.
  void check_end(std::size_t rank) {
    for (std::size_t link = 0; link < links_; ++link) {
      const NodeId node = at(rank, link);
      if (node == kNoNode) continue;
      const auto& exchanged = communication(rank, node).exchanged;
      const std::size_t other =
          exchanged.has_value() ? static_cast<std::size_t>(exchanged->peer) : first_absent(members(rank, node), link);
      if (other >= ranks_.size()) {
        fault(describe(rank, node), " waits for ever.");
      } else if (const NodeId its = at(other, link); its != kNoNode) {
        fault(describe(rank, node), " waits for ever for rank ", other, ", which waits in ", describe(other, its), '.');
      } else {
        fault(describe(rank, node), " waits for ever for rank ", other, ", which ",
              has_ended(other) ? "has ended." : "waits on another link.");
      }
    }
  }

  bool has_ended(std::size_t rank) const {
    const auto& streams = ranks_[rank].role->plan->commands.streams;
    return std::ranges::equal(ranks_[rank].done, streams, {}, {}, [](const auto& commands) { return commands.size(); });
  }

  std::vector<Rank> ranks_;
  std::size_t links_ = 0;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> verify_ranks(std::span<const RankPlan> roles, std::span<const std::int32_t> role) {
  std::vector<std::string> faults;
  std::vector<Role> known;
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const auto rank = std::ranges::find(role, static_cast<std::int32_t>(i)) - role.begin();
    const StepGraph& graph = roles[i].problem->graph;
    for (const std::string& text : verify_plan(graph, roles[i].problem->costs, *roles[i].plan)) {
      faults.push_back(message("Rank ", rank, ": ", text));
    }
    Role& its = known.emplace_back(Role{roles[i], {}, {}});
    std::int32_t number = 0;
    for (NodeId node = 0; node < graph.node_count(); ++node) {
      its.communications.push_back(graph.communication(node));
      its.numbers.push_back(number);
      number += its.communications.back().calls.empty() ? 0 : 1;
    }
  }
  return faults.empty() ? Play(known, role).run() : faults;
}

void require_safe(std::span<const RankPlan> plans, int ranks) {
  std::vector<std::int32_t> role(static_cast<std::size_t>(ranks));
  if (plans.size() > 1) std::iota(role.begin(), role.end(), 0);
  const std::vector<std::string> faults = verify_ranks(plans, role);
  BRAID_CHECK(faults.empty(), PlanError, "[plan] ", ranks, " ranks cannot run policy '", plans.front().plan->policy,
              "' together:\n  ", faults.front());
}

}  // namespace braid::scheduler
