// The verifier of operations, which judges the steps of the real stream group (sequence_test.cpp).

#include "tests/cuda/sequence/operations.h"

#include <doctest/doctest.h>

#include "core/base/random.h"
#include "tests/effort.h"
#include "tests/faults.h"
#include "tests/scheduler/oracle.h"

namespace braid::scheduler::testing {
namespace {

using braid::testing::some_of;
using OperationKind = Operation::Kind;
using Sequence = std::vector<Operation>;

Operation work(int queue, std::vector<Access> accesses, std::string name = "work") {
  return {.queue = queue, .name = std::move(name), .accesses = std::move(accesses)};
}
Operation on_event(OperationKind kind, int queue, std::int32_t event, std::int32_t occurrence = 0) {
  return {.kind = kind, .queue = queue, .name = "event", .event = event, .occurrence = occurrence};
}

/// Which operations come before which, by transitive closure over what the rules say, one rule at a time.
Relation closure(std::span<const Operation> sequence) {
  if (sequence.size() > kMaxOracle) throw Error("the oracle is for small sequences only");
  Relation relation(sequence.size());
  for (std::size_t b = 0; b < sequence.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (sequence[a].queue == sequence[b].queue || sequence[a].queue == kHost) relation[a].set(b);
      const bool meets = sequence[a].kind == Operation::Kind::record && sequence[b].kind == Operation::Kind::wait &&
                         sequence[a].event == sequence[b].event;
      const auto again = [&](const Operation& later) {
        return later.kind == Operation::Kind::record && later.event == sequence[b].event;
      };
      if (meets && std::none_of(sequence.begin() + a + 1, sequence.begin() + b, again)) relation[a].set(b);
    }
  }
  close(relation);
  return relation;
}

/// Whether two operations that touch the same bytes, one of them writing, are not ordered. All pairs.
bool has_race(std::span<const Operation> sequence) {
  const Relation before = closure(sequence);
  for (std::size_t b = 0; b < sequence.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (before[a][b]) continue;
      for (const Access& x : sequence[a].accesses) {
        for (const Access& y : sequence[b].accesses) {
          if ((x.writes || y.writes) && std::max(x.begin, y.begin) < std::min(x.end, y.end)) return true;
        }
      }
    }
  }
  return false;
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

}  // namespace braid::scheduler::testing
