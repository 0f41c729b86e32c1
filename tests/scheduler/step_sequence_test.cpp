// Steps in a row: the verifier of operations, the protocols of the executors, and what is left of them when a part is
// missing.

#include "tests/scheduler/step_sequence.h"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "core/device/backend.h"
#include "tests/faults.h"
#include "tests/scheduler/step_protocols.h"
#include "tests/scheduler/training_step.h"

namespace braid::scheduler::testing {
namespace {

using OperationKind = Operation::Kind;
using Sequence = std::vector<Operation>;

bool named(const Operation& operation, std::string_view text) { return operation.name.find(text) != std::string::npos; }

/// A sequence without the operations that a name matches, in every step or in one.
Sequence without(Sequence sequence, std::string_view text, std::string_view step = "") {
  REQUIRE(std::erase_if(sequence, [&](const Operation& op) { return named(op, text) && named(op, step); }) > 0);
  return sequence;
}

/// Adds to the addresses from `from` on, which then lie on others.
Sequence shifted(Sequence sequence, std::int64_t from, std::int64_t to, std::int64_t by) {
  for (Operation& operation : sequence) {
    for (Access& access : operation.accesses) {
      if (access.begin < from || access.begin >= to) continue;
      access.begin += by;
      access.end += by;
    }
  }
  return sequence;
}

Operation work(int queue, std::vector<Access> accesses, std::string name = "work") {
  return {.queue = queue, .name = std::move(name), .accesses = std::move(accesses)};
}
Operation on_event(OperationKind kind, int queue, std::int32_t event, std::int32_t occurrence = 0) {
  return {.kind = kind, .queue = queue, .name = "event", .event = event, .occurrence = occurrence};
}

}  // namespace

TEST_CASE("a wait binds to the last record issued before it") {
  const Access write{0, 8, true, 1}, read{0, 8, false, 1};
  const Sequence ordered{work(1, {write}), on_event(OperationKind::record, 1, 0), on_event(OperationKind::wait, 2, 0),
                         work(2, {read})};
  CHECK(joined(verify_operations(ordered)) == "");

  Sequence early = ordered;
  std::swap(early[1], early[2]);
  CHECK(mentions(verify_operations(early), "before the event was ever recorded"));
  CHECK(mentions(verify_operations(early), "not ordered after the write"));

  Sequence stale = early;  // a record of a step before makes the wait look well
  stale.insert(stale.begin(), on_event(OperationKind::record, 1, 0));
  CHECK_FALSE(mentions(verify_operations(stale), "ever recorded"));
  CHECK(mentions(verify_operations(stale), "not ordered after the write"));
  stale[2].occurrence = 2;
  CHECK(mentions(verify_operations(stale), "is bound to record 1 of its event, but means record 2"));
}

TEST_CASE("the host completes a wait before it issues anything else, and does not wait for an unrecorded event") {
  const Access write{0, 8, true, 1}, read{0, 8, false, 1};
  const Sequence ordered{on_event(OperationKind::wait, kHost, 0), work(1, {write}),
                         on_event(OperationKind::record, 1, 0), on_event(OperationKind::wait, kHost, 0),
                         work(2, {read})};
  CHECK(joined(verify_operations(ordered)) == "");
  Sequence missing = ordered;
  missing.erase(missing.begin() + 3);
  CHECK(mentions(verify_operations(missing), "not ordered after the write"));
}

TEST_CASE("an event may be recorded again only after the waits for its record before") {
  const Sequence safe{on_event(OperationKind::record, 1, 0), on_event(OperationKind::wait, 2, 0),
                      on_event(OperationKind::record, 2, 1), on_event(OperationKind::wait, 1, 1),
                      on_event(OperationKind::record, 1, 0)};
  CHECK(joined(verify_operations(safe)) == "");
  Sequence unsafe = safe;
  unsafe.erase(unsafe.begin() + 3);
  CHECK(mentions(verify_operations(unsafe), "records the event again while this may not be over"));
}

TEST_CASE("operations must find what they expect, byte by byte, and copies hand it on") {
  Sequence sequence{work(1, {{0, 4, true, 1}, {4, 8, true, 2}}),
                    {.kind = OperationKind::copy, .queue = 1, .name = "copy", .accesses = {{2, 6}, {102, 106, true}}},
                    work(1, {{102, 104, false, 1}, {104, 106, false, 2}})};
  CHECK(joined(verify_operations(sequence)) == "");
  sequence[2].accesses[0].end = 105;
  CHECK(mentions(verify_operations(sequence), "finds at 104 what it does not expect, written by copy"));
  sequence[2].accesses = {{101, 103, false, 1}};
  CHECK(mentions(verify_operations(sequence), "finds at 101 what it does not expect, which nobody wrote"));
}

TEST_CASE("a queue or event out of range is refused") {
  CHECK_THROWS_AS(verify_operations(Sequence{work(-1, {})}), Error);
  CHECK_THROWS_AS(verify_operations(Sequence{on_event(OperationKind::wait, 1, -1)}), Error);
  const Training t;
  CHECK_THROWS_AS(StepMemory(t.graph, t.costs, t.plan, 0, {}), Error);
}

TEST_CASE("the verifier of operations and a brute-force search for races agree on random operations") {
  int racy = 0, safe = 0;
  for (std::uint64_t seed = 0; seed < some_of(4000); ++seed) {
    Generator random(seed);
    Sequence sequence;
    for (int i = 0; i < 24; ++i) {
      const int queue = static_cast<int>(random.below(4));
      const auto event = static_cast<std::int32_t>(random.below(3));
      switch (random.below(4)) {
        case 0: sequence.push_back(on_event(OperationKind::record, queue, event)); break;
        case 1: sequence.push_back(on_event(OperationKind::wait, queue, event)); break;
        default:
          if (random.below(3) > 0) continue;
          const auto begin = static_cast<std::int64_t>(random.below(12));
          const std::int64_t end = begin + 1 + random.below(4);
          sequence.push_back(work(queue, {{begin, end, random.below(2) == 0, 0}}));
      }
    }
    const bool found = mentions(verify_operations(sequence), "not ordered");
    REQUIRE(found == has_race(sequence));
    ++(found ? racy : safe);
  }
  CHECK(racy > some_of(500));
  CHECK(safe > some_of(500));
}

TEST_CASE("races between nodes of different streams are detected") {
  Training t;
  t.plan.workspaces[1] = t.plan.workspaces[0];
  CHECK(mentions(verify_steps(t.graph, t.costs, t.plan), "not ordered after the write"));
}

TEST_CASE("random steps follow each other safely by both protocols") {
  for (std::uint64_t seed = 0; seed < some_of(300); ++seed) {
    const RandomStep step = random_step(seed, 40);
    for (const int streams : {1, 2, 4}) {
      const Plan plan = make_plan(step.graph, step.costs, critical_path, "critical_path", streams, step.capacity);
      INFO("seed ", seed, " streams ", streams);
      REQUIRE(joined(verify_steps(step.graph, step.costs, plan)) == "");
    }
  }
}

TEST_CASE("inputs that are uploaded beside the running step race with it if they go into the arena at once") {
  const Training t;
  Sequence sequence = cuda_steps(t.graph, t.costs, t.plan, 3, true);
  for (Operation& operation : sequence) {
    if (named(operation, "the copy of input")) operation.queue = 4;  // the copy stream
  }
  CHECK(mentions(verify_operations(sequence), "is not ordered after the read by step 0: node 0"));
}

TEST_CASE("every part of the CUDA protocol is necessary") {
  const Training t;
  REQUIRE(t.plan.commands.waits() == 4);
  REQUIRE(joined(verify_operations(cuda_steps(t.graph, t.costs, t.plan, 4, false))) == "");
  const Sequence sequence = cuda_steps(t.graph, t.costs, t.plan, 5, true);
  REQUIRE(joined(verify_operations(sequence)) == "");
  REQUIRE_FALSE(has_race(sequence));

  for (const std::string part : {"wait for the fork", "wait for the join", "wait for the upload",
                                 "the host's wait for the copies out of the slot", "wait for an event of the plan",
                                 "record of the fork", "record of the join", "record of the upload",
                                 "record of the copies out of the slot", "record of an event of the plan", "the upload",
                                 "the copy of input", "the host's write of the inputs", "node 3"}) {
    CAPTURE(part);
    CHECK_FALSE(verify_operations(without(sequence, part)).empty());
    CHECK_FALSE(verify_operations(without(sequence, part, "step 2")).empty());
  }
  CHECK_FALSE(verify_operations(without(sequence, "the host's wait for the last step")).empty());

  // Single waits, in every step from the first that has one before it.
  int dropped = 0;
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    if (sequence[i].kind != OperationKind::wait || sequence[i].queue == kHost || named(sequence[i], "step 0")) continue;
    Sequence broken = sequence;
    broken.erase(broken.begin() + static_cast<std::ptrdiff_t>(i));
    INFO(sequence[i].name);
    CHECK_FALSE(verify_operations(broken).empty());
    ++dropped;
  }
  CHECK(dropped > 10);
}

TEST_CASE("a wait that is issued before the record of its step binds to that of the step before, and is found out") {
  const Training t;
  const Sequence sequence = cuda_steps(t.graph, t.costs, t.plan, 3, true);
  int swapped = 0;
  for (std::size_t r = 0; r < sequence.size(); ++r) {
    if (sequence[r].kind != OperationKind::record) continue;
    Sequence early = waiting_too_early(sequence, r);
    if (early.empty()) continue;
    INFO(early[r].name);
    const std::vector<std::string> faults = verify_operations(early);
    CHECK((mentions(faults, "before the event was ever recorded") || mentions(faults, "is bound to record")));
    for (Operation& operation : early) operation.occurrence = 0;  // without saying which record is meant
    CHECK(mentions(verify_operations(early), "not ordered"));
    ++swapped;
  }
  CHECK(swapped > 10);
}

TEST_CASE("one slot of staging memory is too few for waits that are made for two") {
  const Training t;
  const Sequence sequence = cuda_steps(t.graph, t.costs, t.plan, 5, true);
  std::vector<const Operation*> uploads;
  for (const Operation& operation : sequence) {
    if (named(operation, ": the upload")) uploads.push_back(&operation);
  }
  REQUIRE(uploads.size() == 5);
  for (const std::size_t end : {0, 1}) {  // ends of the path through staging: pinned memory, device memory
    const Access first = uploads[0]->accesses[end], second = uploads[1]->accesses[end];
    REQUIRE(first.begin < second.begin);
    REQUIRE(uploads[2]->accesses[end].begin == first.begin);
    const Sequence one = shifted(sequence, second.begin, second.end, first.begin - second.begin);
    CHECK(mentions(verify_operations(one), "not ordered"));
  }
}

/// Notes the order in which nodes of several steps begin and end.
class Notes final : public LaunchObserver {
 public:
  struct Note {
    NodeId node;
    bool ends;
  };
  void before_launch(int, std::int32_t node) override { add({node, false}); }
  void after_launch(int, std::int32_t node) override { add({node, true}); }
  std::vector<Note> take() { return std::exchange(notes_, {}); }

 private:
  void add(const Note& note) {
    const std::lock_guard lock(mutex_);
    notes_.push_back(note);
  }
  std::mutex mutex_;
  std::vector<Note> notes_;
};

/// Takes a while, every time another.
struct Sleep final : Kernel {
  explicit Sleep(std::uint64_t seed) : random(seed) {}
  void bind(std::span<void* const>, std::span<void* const>, void*) override {}
  void launch(const LaunchContext&) override {
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(4) * random.below(60)));
  }
  Generator random;
};

TEST_CASE("CPU streams run steps in a row as their protocol says, whatever the durations") {
  const auto backend = make_backend({DeviceType::cpu, 0});
  std::size_t pairs = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const RandomStep step = random_step(seed, 20);
    const int streams = 2 + static_cast<int>(seed % 3);
    const Plan plan = make_plan(step.graph, step.costs, critical_path, "critical_path", streams, step.capacity);
    std::vector<std::unique_ptr<Kernel>> kernels;
    for (NodeId id = 0; id < step.graph.node_count(); ++id) kernels.push_back(std::make_unique<Sleep>(100 * seed + id));
    Program program{plan.commands, {}};
    for (const auto& kernel : kernels) program.kernels.push_back(kernel.get());

    constexpr int kSteps = 3;
    Notes notes;
    const auto group = backend->make_streams({.count = static_cast<int>(plan.commands.streams.size())});
    group->set_observer(&notes);
    for (int k = 0; k < kSteps; ++k) group->launch(program);
    group->synchronize();
    group->set_observer(nullptr);

    // When each operation of the protocol began and ended: the k-th note of a node is of step k.
    const Sequence sequence = cpu_steps(step.graph, step.costs, plan, kSteps);
    std::map<std::string, std::pair<int, int>> when;
    std::map<NodeId, int> begun, ended;
    const std::vector<Notes::Note> run = notes.take();
    for (int i = 0; i < static_cast<int>(run.size()); ++i) {
      const NodeId node = run[i].node;
      const int k = run[i].ends ? ended[node]++ : begun[node]++;
      auto& [first, last] = when[message("step ", k, ": node ", node, " on stream ", plan.placements[node].stream)];
      (run[i].ends ? last : first) = i;
    }
    const OperationOrder order(sequence);
    std::vector<std::size_t> works;
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      if (when.contains(sequence[i].name)) works.push_back(i);
    }
    REQUIRE(works.size() == when.size());
    for (const std::size_t a : works) {
      for (const std::size_t b : works) {
        if (a == b || !order.before(a, b)) continue;
        INFO("seed ", seed, ": ", sequence[a].name, " and ", sequence[b].name);
        REQUIRE(when[sequence[a].name].second < when[sequence[b].name].first);
        ++pairs;
      }
    }
  }
  CHECK(pairs > 10000);
}

TEST_CASE("every part of the CPU protocol is necessary") {
  for (const bool with_input : {true, false}) {
    const Training t(with_input);
    const Sequence sequence = cpu_steps(t.graph, t.costs, t.plan, 4);
    REQUIRE(joined(verify_operations(sequence)) == "");
    REQUIRE_FALSE(has_race(sequence));
    CHECK_FALSE(verify_operations(without(sequence, "the host's wait")).empty());
    CHECK_FALSE(verify_operations(without(sequence, "wait for an event of the plan")).empty());
    CHECK_FALSE(verify_operations(without(sequence, "wait for an event of the plan", "step 2")).empty());
    if (with_input) {  // the host waits for all streams, which then need not wait for each other
      CHECK_FALSE(verify_operations(without(sequence, "the host's wait", "step 2")).empty());
      CHECK_FALSE(verify_operations(without(sequence, "the host's write of the inputs", "step 2")).empty());
    } else {
      CHECK_FALSE(verify_operations(without(sequence, "wait for the end of the step before", "step 2")).empty());
    }
  }
}

}  // namespace braid::scheduler::testing
