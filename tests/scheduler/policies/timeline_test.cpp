#include "scheduler/policies/timeline.h"

#include <doctest/doctest.h>

#include "tests/scheduler/schedules.h"

namespace braid::scheduler::testing {
namespace {

/// A timeline of the nodes of a graph, which it keeps alive.
struct Example {
  Example(StepGraph g, const std::vector<std::vector<Cost>>& implementations, int streams, int capacity)
      : problem(make_problem(std::move(g), costs_of(implementations), streams, capacity)), timeline(problem) {}
  Problem problem;
  Timeline timeline;
};

}  // namespace

TEST_CASE("a node starts before one that was placed earlier if there is room") {
  StepGraph graph;  // 1 reads 0
  add(graph, {add(graph, {})});
  add(graph, {});
  Example example(std::move(graph), {{{1, 2}}, {{2, 2}}, {{1, 2}}}, 2, 2);
  for (const NodeId node : {0, 1}) example.timeline.place(node, 0);
  example.timeline.place(2, 1);
  CHECK(example.timeline.placement(2).start == 0);
  CHECK(std::move(example.timeline).finish().order == std::vector<NodeId>{0, 2, 1});
}

TEST_CASE("a gap that is too short or too narrow is passed over") {
  const auto start_of_last = [](const Cost& last) {  // 0 and 1 with a gap of 2 between them on half the capacity
    StepGraph graph = independent(2);
    const ValueId waits = add(graph, {graph.output(0, 0)});
    add(graph, {waits});
    add(graph, {});
    Example example(std::move(graph), {{{4, 1}}, {{2, 2}}, {{1, 2}}, {{4, 1}}, {last}}, 3, 4);
    example.timeline.place(0, 0);
    example.timeline.place(1, 1);
    example.timeline.place(2, 0);
    example.timeline.place(3, 0);
    example.timeline.place(4, 2);
    return example.timeline.placement(4).start;
  };
  CHECK(start_of_last({1, 2}) == 1);    // alongside 1 and 2, from 1 to 3
  CHECK(start_of_last({1, 2.5}) == 4);  // would still run when 3 needs all
  CHECK(start_of_last({2, 1}) == 4);    // 1 and 2 leave 1
}

TEST_CASE("a node that takes no time needs its width for a moment, and what runs over it leaves that much") {
  const auto start_of_last = [](int width) {  // 1 follows 0 at time 3
    StepGraph graph;
    add(graph, {add(graph, {})});
    add(graph, {});
    Example example(std::move(graph), {{{1, 3}}, {{2, 0}}, {{width, 5}}}, 2, 3);
    example.timeline.place(0, 0);
    example.timeline.place(1, 0);
    example.timeline.place(2, 1);
    const double start = example.timeline.placement(2).start;
    std::move(example.timeline).finish();  // throws if it is beyond the capacity
    return start;
  };
  CHECK(start_of_last(1) == 0);
  CHECK(start_of_last(2) == 3);
}

TEST_CASE("of streams that are free at the same time an empty one comes first") {
  Example example(independent(2), {{{1, 0}}, {{1, 1}}}, 2, 2);
  CHECK(example.timeline.first_free() == 0);
  example.timeline.place(0, 0);
  CHECK(example.timeline.first_free() == 1);
  example.timeline.place(1, 1);
  CHECK(example.timeline.first_free() == 0);
}

TEST_CASE("an equal share is the fastest implementation that leaves as much to every stream") {
  const Example one(independent(1), {{{1, 8}, {2, 4}, {3, 5}, {4, 3}}}, 1, 4);
  const Example two(independent(1), {{{1, 8}, {2, 4}, {3, 5}, {4, 3}}}, 2, 4);
  const Example eight(independent(1), {{{2, 4}, {4, 3}}}, 8, 4);
  CHECK(equal_share(one.problem, 0) == 3);
  CHECK(equal_share(two.problem, 0) == 1);
  CHECK(equal_share(eight.problem, 0) == 0);  // none is narrow enough
  Problem shared = two.problem;
  shared.oversubscribes = true;
  CHECK(equal_share(shared, 0) == 3);
}

}  // namespace braid::scheduler::testing
