// Plans with one fault, of every kind that we could think of. The oracle decides whether a mutation does harm; the
// verifier must find all that do, and no others.

#include <doctest/doctest.h>

#include <iomanip>
#include <iostream>
#include <optional>

#include "tests/scheduler/oracle.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

using Kind = Command::Kind;

/// Changes one thing of a plan, at random. False if the plan has nothing of the kind.
class Mutator {
 public:
  Mutator(const RandomStep& step, Plan& plan, Generator& random)
      : graph_(step.graph), costs_(step.costs), plan_(plan), random_(random) {}

  bool drop_wait() { return drop(find(Kind::wait)); }
  bool drop_record() { return drop(find(Kind::record)); }
  bool drop_launch() { return drop(find(Kind::launch)); }

  bool repeat_launch() {
    const Place place = find(Kind::launch);
    if (!place.found) return false;
    auto& commands = plan_.commands.streams[place.stream];
    commands.insert(at(place.stream, below(commands.size() + 1)), commands[place.position]);
    return true;
  }

  bool move_wait_behind_launch() {
    const Place place = find(Kind::wait);
    if (!place.found) return false;
    auto& commands = plan_.commands.streams[place.stream];
    const auto launch = std::ranges::find(at(place), commands.end(), Kind::launch, &Command::kind);
    if (launch == commands.end()) return false;
    std::rotate(at(place), at(place) + 1, launch + 1);
    return true;
  }

  bool move_record_before_launch() {
    const Place place = find(Kind::record);
    if (!place.found || place.position == 0) return false;
    std::size_t launch = place.position;
    while (launch > 0 && plan_.commands.streams[place.stream][launch].kind != Kind::launch) --launch;
    std::rotate(at(place.stream, launch), at(place), at(place) + 1);
    return true;
  }

  bool move_wait_to_other_stream() { return move_to_other_stream(find(Kind::wait)).has_value(); }
  bool move_record_to_other_stream() { return move_to_other_stream(find(Kind::record)).has_value(); }
  bool move_launch_to_other_stream() {
    const Place place = find(Kind::launch);
    if (!place.found) return false;
    const NodeId node = plan_.commands.streams[place.stream][place.position].index;
    const auto target = move_to_other_stream(place);
    if (!target) return false;
    plan_.placements[node].stream = static_cast<int>(*target);
    return true;
  }

  bool swap_dependent_nodes() {
    const Edges edges = graph_.edges();
    std::vector<std::pair<Place, Place>> pairs;
    for (std::size_t s = 0; s < plan_.commands.streams.size(); ++s) {
      const auto& commands = plan_.commands.streams[s];
      for (std::size_t b = 0; b < commands.size(); ++b) {
        for (std::size_t a = 0; a < b; ++a) {
          if (commands[a].kind != Kind::launch || commands[b].kind != Kind::launch) continue;
          if (!std::ranges::binary_search(edges.predecessors(commands[b].index), commands[a].index)) continue;
          pairs.push_back({{true, s, a}, {true, s, b}});
        }
      }
    }
    if (pairs.empty()) return false;
    const auto& [a, b] = pairs[below(pairs.size())];
    std::swap(*at(a), *at(b));
    return true;
  }

  bool swap_neighbours() {
    auto& commands = plan_.commands.streams[below(plan_.commands.streams.size())];
    if (commands.size() < 2) return false;
    const std::size_t i = below(commands.size() - 1);
    std::swap(commands[i], commands[i + 1]);
    return true;
  }

  bool wait_for_another_event() {
    const Place place = find(Kind::wait);
    if (!place.found || plan_.commands.events < 2) return false;
    std::int32_t& event = at(place)->index;
    event = (event + 1 + static_cast<std::int32_t>(below(plan_.commands.events - 1))) % plan_.commands.events;
    return true;
  }

  bool swap_events_of_records() {
    const Place a = find(Kind::record), b = find(Kind::record);
    if (!a.found || at(a) == at(b)) return false;
    std::swap(at(a)->index, at(b)->index);
    return true;
  }

  bool move_value_onto_another() {
    const ValueId value = value_in_arena(), other = value_in_arena();
    if (value == kNoValue || plan_.offsets[value] == plan_.offsets[other]) return false;
    move_value(value, plan_.offsets[other]);
    return true;
  }
  bool move_value_a_little() {
    const ValueId value = value_in_arena();
    if (value == kNoValue) return false;
    move_value(value, plan_.offsets[value] + a_little());
    return true;
  }
  bool move_view() {
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      if (graph_.value(id).root == id || plan_.offsets[id] < 0) continue;
      plan_.offsets[id] += kArenaAlignment;
      return true;
    }
    return false;
  }

  bool shrink_workspace() {
    ArenaSlice* slice = used_workspace();
    if (slice == nullptr) return false;
    slice->bytes -= 1 + static_cast<std::int64_t>(below(slice->bytes));
    return true;
  }
  bool move_workspace_onto_another() {
    ArenaSlice* slice = used_workspace();
    ArenaSlice* other = used_workspace();
    if (slice == other) return false;
    slice->offset = other->offset;
    return true;
  }
  bool move_workspace_onto_value() {
    ArenaSlice* slice = used_workspace();
    const ValueId value = value_in_arena();
    if (slice == nullptr || value == kNoValue) return false;
    slice->offset = plan_.offsets[value];
    return true;
  }
  bool move_workspace_a_little() {
    ArenaSlice* slice = used_workspace();
    if (slice == nullptr) return false;
    slice->offset += a_little();
    return true;
  }
  bool grow_workspace() {
    plan_.workspaces[below(plan_.workspaces.size())].bytes += 1 + static_cast<std::int64_t>(below(600));
    return true;
  }
  bool swap_workspaces() {
    ArenaSlice* slice = used_workspace();
    ArenaSlice* other = &plan_.workspaces[below(plan_.workspaces.size())];
    if (slice == nullptr || slice == other) return false;
    std::swap(*slice, *other);
    return true;
  }

  bool choose_another_implementation() {
    const NodeId node = static_cast<NodeId>(below(graph_.node_count()));
    const std::size_t implementations = costs_.of(node).size();
    if (graph_.node(node).is_view || implementations < 2) return false;
    int& implementation = plan_.placements[node].implementation;
    implementation = static_cast<int>((implementation + 1 + below(implementations - 1)) % implementations);
    return true;
  }
  bool shrink_arena() {
    if (plan_.arena_bytes == 0) return false;
    plan_.arena_bytes -= 1 + static_cast<std::int64_t>(below(std::min<std::int64_t>(plan_.arena_bytes, 1000)));
    return true;
  }

 private:
  struct Place {
    bool found = false;
    std::size_t stream = 0, position = 0;
  };

  std::size_t below(auto bound) { return random_.below(static_cast<std::uint32_t>(bound)); }
  std::vector<Command>::iterator at(std::size_t stream, std::size_t position) {
    return plan_.commands.streams[stream].begin() + static_cast<std::ptrdiff_t>(position);
  }
  std::vector<Command>::iterator at(const Place& place) { return at(place.stream, place.position); }

  Place find(Kind kind) {
    std::vector<Place> places;
    for (std::size_t s = 0; s < plan_.commands.streams.size(); ++s) {
      for (std::size_t i = 0; i < plan_.commands.streams[s].size(); ++i) {
        if (plan_.commands.streams[s][i].kind == kind) places.push_back({true, s, i});
      }
    }
    return places.empty() ? Place{} : places[below(places.size())];
  }
  bool drop(const Place& place) {
    if (place.found) plan_.commands.streams[place.stream].erase(at(place));
    return place.found;
  }
  /// Moves it to any place of another stream. Returns which stream.
  std::optional<std::size_t> move_to_other_stream(const Place& place) {
    if (!place.found || plan_.commands.streams.size() < 2) return std::nullopt;
    const std::size_t target =
        (place.stream + 1 + below(plan_.commands.streams.size() - 1)) % plan_.commands.streams.size();
    const Command command = *at(place);
    drop(place);
    auto& commands = plan_.commands.streams[target];
    commands.insert(at(target, below(commands.size() + 1)), command);
    return target;
  }

  ValueId value_in_arena() {
    std::vector<ValueId> values;
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const Value& value = graph_.value(id);
      if (value.slot < 0 && value.root == id && value.bytes() > 0) values.push_back(id);
    }
    return values.empty() ? kNoValue : values[below(values.size())];
  }
  void move_value(ValueId value, std::int64_t offset) {
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      if (graph_.value(id).root == value) plan_.offsets[id] = offset;
    }
  }
  std::int64_t a_little() {
    const std::int64_t step = below(4) == 0 ? 1 : kArenaAlignment;
    return (below(2) == 0 ? -1 : 1) * static_cast<std::int64_t>(1 + below(3)) * step;
  }
  ArenaSlice* used_workspace() {
    std::vector<ArenaSlice*> used;
    for (ArenaSlice& slice : plan_.workspaces) {
      if (slice.bytes > 0) used.push_back(&slice);
    }
    return used.empty() ? nullptr : used[below(used.size())];
  }

  const StepGraph& graph_;
  const Costs& costs_;
  Plan& plan_;
  Generator& random_;
};

struct Mutation {
  const char* name;
  bool (Mutator::*apply)();
  bool may_be_harmless;
};
constexpr Mutation kMutations[] = {
    {"a wait dropped", &Mutator::drop_wait, false},
    {"a wait behind its launch", &Mutator::move_wait_behind_launch, false},
    {"a wait in another stream", &Mutator::move_wait_to_other_stream, true},
    {"a wait for another event", &Mutator::wait_for_another_event, true},
    {"a record dropped", &Mutator::drop_record, false},
    {"a record before its node", &Mutator::move_record_before_launch, true},
    {"a record in another stream", &Mutator::move_record_to_other_stream, true},
    {"the events of two records swapped", &Mutator::swap_events_of_records, true},
    {"a launch dropped", &Mutator::drop_launch, false},
    {"a launch repeated", &Mutator::repeat_launch, false},
    {"a launch in another stream", &Mutator::move_launch_to_other_stream, true},
    {"dependent nodes swapped", &Mutator::swap_dependent_nodes, false},
    {"neighbours in a stream swapped", &Mutator::swap_neighbours, true},
    {"a value on top of another", &Mutator::move_value_onto_another, true},
    {"a value moved a little", &Mutator::move_value_a_little, true},
    {"a view away from its value", &Mutator::move_view, false},
    {"a workspace shrunk", &Mutator::shrink_workspace, false},
    {"a workspace on top of another", &Mutator::move_workspace_onto_another, false},
    {"a workspace on top of a value", &Mutator::move_workspace_onto_value, false},
    {"a workspace moved a little", &Mutator::move_workspace_a_little, true},
    {"a workspace grown", &Mutator::grow_workspace, true},
    {"workspaces swapped", &Mutator::swap_workspaces, true},
    {"another implementation of a node", &Mutator::choose_another_implementation, true},
    {"the arena shrunk", &Mutator::shrink_arena, true},
};

/// A plan by any of the policies.
Plan some_plan(const RandomStep& step, int streams, Generator& random) {
  const NamedPolicy& any = kPolicies[random.below(std::size(kPolicies))];
  return make_plan(step.graph, step.costs, any.policy, any.name, streams, step.capacity);
}

}  // namespace

TEST_CASE("of every kind of mutation the verifier finds all that do harm, and complains about no other") {
  constexpr int kEach = std::max(50, some_of(200));
  std::cout << "mutations of plans: kind, harmful (all found), harmless (all passed)\n";
  int all_harmless = 0;
  for (const Mutation& mutation : kMutations) {
    int harmful = 0, harmless = 0;
    for (std::uint64_t seed = 0; harmful + harmless < kEach; ++seed) {
      REQUIRE(seed < 40 * kEach);
      const RandomStep step = random_step(seed, seed % 2 == 0 ? 12 : 30);
      Generator random(seed, 7);
      Plan plan = some_plan(step, 1 + static_cast<int>(random.below(4)), random);
      if (!(Mutator(step, plan, random).*mutation.apply)()) continue;

      INFO(mutation.name, ", seed ", seed);
      const std::vector<std::string> faults = verify_plan(step.graph, step.costs, plan);
      const bool safe = SafetyOracle(step.graph, step.costs, plan).safe();
      CAPTURE(faults.empty() ? "" : faults[0]);
      REQUIRE(faults.empty() == safe);
      ++(safe ? harmless : harmful);
    }
    std::cout << "  " << std::left << std::setw(36) << mutation.name << std::right << std::setw(6) << harmful
              << std::setw(6) << harmless << '\n';
    CAPTURE(mutation.name);
    CHECK(harmful > kEach / 20);
    if (!mutation.may_be_harmless) CHECK(harmless == 0);
    all_harmless += harmless;
  }
  CHECK(all_harmless > kEach);
}

}  // namespace braid::scheduler::testing
