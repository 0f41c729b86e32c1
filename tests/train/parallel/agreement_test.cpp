// What all ranks must do and have alike: the same options, texts, weights and steps. Otherwise all of them meet an
// error.

#include "runtime/agreement.h"

#include <doctest/doctest.h>

#include <cmath>
#include <exception>

#include "autograd/functions.h"
#include "core/comm/local/local_ranks.h"
#include "runtime/session.h"
#include "tests/core/on_all.h"

using namespace braid;
using namespace braid::testing;

TEST_CASE("ranks whose weights have come apart meet an error") {
  const auto error_of = [](float of_rank_1) {
    const auto ranks = std::make_shared<LocalRanks>(2);
    const auto errors = on_all<CommunicationError>(*ranks, [&](Communicator& own) {
      Session session({.device = "cpu", .streams = 1, .parallel = {.communicator = {ranks, &own}}});
      Parameter& weight = session.add("weight", {DType::f32, {3}}, ValueKind::parameter);
      session.write(weight, Array::from<float>({1, 2, own.rank() == 1 ? of_rank_1 : 3}, {3}));
      Parameter* const tensors[] = {&weight};
      require_same_bits(session, tensors, "the model");
    });
    CHECK(errors[0] == errors[1]);
    return errors[0];
  };
  CHECK(error_of(3).empty());
  CHECK(error_of(std::nextafter(3.0F, 4.0F)).starts_with("[parallel] the model of rank 1 is not that of rank 0"));
}

TEST_CASE("what fails on one rank ends the others") {
  for (const bool measured : {false, true}) {
    CAPTURE(measured);
    const auto ranks = std::make_shared<LocalRanks>(3);
    const auto errors = on_all<std::exception>(*ranks, [&](Communicator& own) {
      Session session({.device = "cpu", .streams = 2, .parallel = {.communicator = {ranks, &own}}});
      Parameter& weight = session.add("weight", {DType::f32, {10, 4}}, ValueKind::parameter);
      Step step = session.step();
      const Tensor x = place(Array(DType::f32, {2, 4}), Layout::split);
      const Tensor y = place(Array::from<std::int32_t>({0, own.rank() == 1 ? 99 : 3}, {2}), Layout::split);
      const Tensor loss = cross_entropy(linear(x, weight), y);
      backward(loss);
      const Tensor sum = gradient(weight).keep();
      measured ? static_cast<void>(step.measure()) : step.run();
      sum.array();
    });
    CHECK(contains(errors[1], "99"));
    for (const int other : {0, 2}) {
      CHECK(contains(errors[static_cast<std::size_t>(other)], "rank 1 failed: " + errors[1]));
    }
  }
}

TEST_CASE("ranks that record different steps meet an error before these run, the first step or a later one") {
  for (const int step_that_differs : {0, 2}) {
    const auto ranks = std::make_shared<LocalRanks>(2);
    const auto errors = on_all<CommunicationError>(*ranks, [&](Communicator& own) {
      Session session({.device = "cpu", .streams = 1, .parallel = {.communicator = {ranks, &own}}});
      for (int i = 0; i < 4; ++i) {
        Step step = session.step();
        const std::int64_t extent = 4 + (i == step_that_differs ? own.rank() : 0);
        const Tensor total = sum(place(Array(DType::f32, {2, extent}), Layout::split));
        step.run();
        total.item();
        CHECK(i < step_that_differs);
      }
    });
    for (const std::string& error : errors) {
      CHECK(error ==
            "[parallel] rank 1 is about to do something else than rank 0: all ranks must record the same steps in the "
            "same order");
    }
  }
}

TEST_CASE("ranks with different texts meet an error with the first line that differs") {
  const auto error_of = [](const std::string& first, const std::string& second) {
    const auto ranks = std::make_shared<LocalRanks>(2);
    const auto errors = on_all<CommunicationError>(*ranks, [&](Communicator& own) {
      require_same_text({.communicator = {ranks, &own}}, own.rank() == 0 ? first : second, "the text");
    });
    CHECK(errors[0] == errors[1]);
    return errors[0];
  };
  const auto differ = [](const std::string& theirs, const std::string& ours) {
    return "[parallel] the text of rank 1 has '" + theirs + "' where that of rank 0 has '" + ours +
           "': all ranks must be given the same";
  };
  CHECK(error_of("a\n  b\n", "a\n  b\n").empty());
  CHECK(error_of("a\n  b: 1\nc\n", "a\n  b: 2\nc\n") == differ("b: 2", "b: 1"));
  CHECK(error_of("a\n", "a\nb\n") == differ("b", ""));
  CHECK(error_of("a\n", "a") == differ("a", "a"));  // and no endless search
  CHECK(error_of("", "   ") == differ("", ""));
}

TEST_CASE("every rank gets the texts of all, in the order of the ranks") {
  const auto ranks = std::make_shared<LocalRanks>(3);
  const auto errors = on_all<CommunicationError>(*ranks, [&](Communicator& own) {
    const std::string text(static_cast<std::size_t>(own.rank()), 'x');
    CHECK(of_all_ranks({.communicator = {ranks, &own}}, text) == std::vector<std::string>{"", "x", "xx"});
  });
  CHECK(of_all_ranks({}, "alone") == std::vector<std::string>{"alone"});
}

TEST_CASE("options that ranks cannot share are errors that say what was expected") {
  const auto ranks = std::make_shared<LocalRanks>(2);
  const auto error = [&](ParallelOptions options) {
    options.communicator = {ranks, &ranks->of(0)};
    return error_of<Error>([&] { Session session({.device = "cpu", .parallel = options}); });
  };
  CHECK(error({.virtual_ranks = 3}) ==
        "[parallel] expected virtual_ranks to be a multiple of the number of ranks, 2, or 0 for one each, got 3");
  CHECK(error({.virtual_ranks = -2}).find("got -2") != std::string::npos);
  CHECK(error({.bucket_bytes = -1}) == "[parallel] expected bucket_bytes of at least 0, got -1");
  CHECK(error({.staleness = -1}) == "[parallel] expected a staleness of at least 0 steps, got -1");
  CHECK(error({.layers = {{"fc", "c"}}, .staleness = 1}).ends_with("use strategy data"));
  CHECK(error({.average_every = -1}) == "[parallel] expected average_every of at least 0 updates, got -1");
  CHECK(error({.virtual_ranks = 4, .average_every = 2})
            .starts_with("[parallel] average_every is for ranks with a whole model"));
  CHECK(error({.staleness = 1, .average_every = 2}).starts_with("[parallel] average_every is for ranks"));
  CHECK(error({.sync_batch_norm = true, .average_every = 2}).starts_with("[parallel] average_every is for ranks"));
  Session session({.device = "cpu", .parallel = {.virtual_ranks = 4}});
  Step step = session.step();
  CHECK_THROWS_WITH_AS(place(Array(DType::f32, {6, 2}), Layout::split),
                       "[place] expected rows for 4 equal shards on each of 1 ranks, got an array of shape [6,2]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(place(Array(DType::f32, {8, 2}), Layout::partial_sum),
                       "[place] expected an array that is replicated or split, got partial sum", Error);
  step.discard();
}
