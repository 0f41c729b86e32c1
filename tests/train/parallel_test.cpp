// Ranks as threads of one process train what one rank trains.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <functional>
#include <thread>

#include "autograd/functions.h"
#include "core/hash.h"
#include "core/local/local_ranks.h"
#include "models/resnet.h"
#include "runtime/agreement.h"
#include "runtime/session.h"
#include "train/optimizer.h"

using namespace braid;

namespace {

constexpr std::int64_t kSamples = 24, kSide = 8;

/// The samples [first, first + count) of a step.
std::pair<Array, Array> samples(int step, std::int64_t first, std::int64_t count) {
  Array images(DType::f32, {count, kSide, kSide, 3}), labels(DType::i32, {count});
  for (std::int64_t i = 0; i < count; ++i) {
    Generator random(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(first + i));
    constexpr std::int64_t kSize = kSide * kSide * 3;
    for (std::int64_t e = 0; e < kSize; ++e)
      images.as<float>()[static_cast<std::size_t>(i * kSize + e)] = random.normal();
    labels.as<std::int32_t>()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(random.below(10));
  }
  return {images, labels};
}

struct Setting {
  int ranks = 1;
  int shards = 0;
  int streams = 1;
  std::int64_t bucket_bytes = 0;
  DType dtype = DType::f32;
  int steps = 4;
  Link link = {.units = 1};
};

/// What a rank has at the end.
struct Result {
  std::vector<double> losses, accuracies;
  std::vector<Array> tensors;                 // weights, statistics, momentum
  std::vector<std::vector<float>> gradients;  // of the first step

  Hash hash() const {
    Hash hash;
    for (const double loss : losses) hash.add(loss);
    for (const double accuracy : accuracies) hash.add(accuracy);
    for (const Array& tensor : tensors) {
      hash.add(std::string_view(reinterpret_cast<const char*>(tensor.data()), tensor.bytes()));
    }
    return hash;
  }
};

Result train(const Setting& setting, std::shared_ptr<Communicator> communicator) {
  const int rank = communicator == nullptr ? 0 : communicator->rank();
  Session session(
      {.device = "cpu",
       .streams = setting.streams,
       .threads = 2,
       .parallel = {
           .communicator = std::move(communicator), .shards = setting.shards, .bucket_bytes = setting.bucket_bytes}});
  models::ResNet network = models::resnet20(session);
  SGD sgd(network.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
  Result result;
  const std::int64_t own = kSamples / setting.ranks;
  for (int i = 0; i < setting.steps; ++i) {
    const auto [images, labels] = samples(i, rank * own, own);
    Step step = session.step();
    const Tensor x = cast(dropout(place(images, Layout::split), 0.2, 0), setting.dtype);
    const Tensor y = place(labels, Layout::split);
    const Tensor logits = cast(network(x), DType::f32);
    const Tensor loss = cross_entropy(logits, y, 0.1);
    const Tensor top1 = accuracy(logits, y);
    backward(loss);
    std::vector<Tensor> gradients;
    if (i == 0) {
      for (Parameter* parameter : network.parameters())
        gradients.push_back(cast(gradient(*parameter), DType::f32).keep());
    }
    sgd.step();
    step.run();
    result.losses.push_back(loss.item());
    result.accuracies.push_back(top1.item());
    for (const Tensor& gradient : gradients) {
      const Array array = gradient.array();
      result.gradients.emplace_back(array.as<float>().begin(), array.as<float>().end());
    }
  }
  for (Parameter* tensor : network.tensors()) result.tensors.push_back(session.read(*tensor));
  for (Parameter* state : sgd.states(false)) result.tensors.push_back(session.read(*state));
  return result;
}

/// The results of all ranks. What a rank throws ends the others, and is thrown.
std::vector<Result> train_on_ranks(const Setting& setting) {
  const auto ranks = std::make_shared<LocalRanks>(setting.ranks, setting.link);
  std::vector<Result> results(static_cast<std::size_t>(setting.ranks));
  std::vector<std::exception_ptr> faults(results.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < setting.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        results[static_cast<std::size_t>(rank)] = train(setting, {ranks, &ranks->of(rank)});
      } catch (const std::exception& error) {
        faults[static_cast<std::size_t>(rank)] = std::current_exception();
        ranks->of(rank).abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& fault : faults) {
    if (fault != nullptr) std::rethrow_exception(fault);
  }
  return results;
}

/// |a − b| / |b|, of all gradients together.
double relative_distance(const Result& a, const Result& b) {
  double difference = 0, norm = 0;
  for (std::size_t t = 0; t < b.gradients.size(); ++t) {
    for (std::size_t e = 0; e < b.gradients[t].size(); ++e) {
      const double x = a.gradients[t][e], y = b.gradients[t][e];
      difference += (x - y) * (x - y), norm += y * y;
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace

constexpr Link kFast{.units = 1}, kSlow{.latency_seconds = 1e-4, .bytes_per_second = 2e8};

TEST_CASE("in exact mode a training has the same bits on any number of ranks") {
  const auto check = [](int shards, std::initializer_list<int> all_ranks, DType dtype) {
    const Result alone = train({.shards = shards, .dtype = dtype}, nullptr);
    for (const int ranks : all_ranks) {
      for (const auto& [streams, bytes, link] : {std::tuple{1, 40'000, kSlow}, {2, 1, kFast}, {4, 25 << 20, kFast}}) {
        CAPTURE(shards);
        CAPTURE(ranks);
        CAPTURE(streams);
        CAPTURE(bytes);
        CAPTURE(dtype);
        for (const Result& result : train_on_ranks({.ranks = ranks,
                                    .shards = shards,
                                    .streams = streams,
                                    .bucket_bytes = bytes,
                                    .dtype = dtype,
                                    .link = link})) {
          CHECK(result.hash() == alone.hash());
        }
      }
    }
  };
  check(4, {1, 2, 4}, DType::f32);
  check(4, {2, 4}, DType::bf16);
  check(12, {2, 3, 4, 12}, DType::f32);

  const Hash alone = train({.shards = 4}, nullptr).hash();  // and with buckets by plan
  for (const Result& result : train_on_ranks({.ranks = 2, .shards = 4})) CHECK(result.hash() == alone);
}

TEST_CASE("gradients are on their way while others are computed, where that saves time") {
  const auto makespan_of = [](const std::string& policy, bool& beside) {
    const auto ranks = std::make_shared<LocalRanks>(2, kSlow);
    double makespan = 0;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        Session session({.device = "cpu",
                         .streams = 1,
                         .policy = policy,
                         .threads = 1,
                         .parallel = {.communicator = {ranks, &ranks->of(rank)}, .bucket_bytes = 100'000}});
        models::ResNet network = models::resnet20(session);
        const auto [images, labels] = samples(0, 12 * rank, 12);
        Step step = session.step();
        backward(cross_entropy(network(place(images, Layout::split)), place(labels, Layout::split)));
        for (Parameter* parameter : network.parameters()) static_cast<void>(gradient(*parameter).keep());
        step.run();
        session.synchronize();
        if (rank != 0) return;
        makespan = step.plan().makespan;
        beside = step.plan().commands.used_streams() == 2;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return makespan;
  };
  bool serial_beside = true, beside = false;
  const double in_turn = makespan_of("serial", serial_beside), overlapped = makespan_of("critical_path", beside);
  CHECK(!serial_beside);
  CHECK(beside);
  CHECK(overlapped < 0.9 * in_turn);
}

TEST_CASE("what fails on one rank ends the others") {
  const auto ranks = std::make_shared<LocalRanks>(3);
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Session session({.device = "cpu", .streams = 2, .parallel = {.communicator = {ranks, &ranks->of(rank)}}});
        Parameter& weight = session.add("weight", {DType::f32, {10, 4}}, ValueKind::parameter);
        Step step = session.step();
        const Tensor x = place(Array(DType::f32, {2, 4}), Layout::split);
        const Tensor y = place(Array::from<std::int32_t>({0, rank == 1 ? 99 : 3}, {2}), Layout::split);
        const Tensor loss = cross_entropy(linear(x, weight), y);
        backward(loss);
        const Tensor sum = gradient(weight).keep();
        step.run();
        sum.array();
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(errors[1].find("99") != std::string::npos);
  for (const int other : {0, 2}) {
    CHECK(errors[static_cast<std::size_t>(other)].find("rank 1 failed: " + errors[1]) != std::string::npos);
  }
}

TEST_CASE("ranks that record different steps meet an error before the first of them runs") {
  const auto ranks = std::make_shared<LocalRanks>(2);
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Session session({.device = "cpu", .streams = 1, .parallel = {.communicator = {ranks, &ranks->of(rank)}}});
        Step step = session.step();
        const Tensor x = place(Array(DType::f32, {2, 4 + rank}), Layout::split);
        const Tensor total = sum(x);
        step.run();
        total.item();
      } catch (const CommunicationError& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) {
    CHECK(error ==
          "[parallel] the plan of a step of rank 1 is not that of rank 0: all ranks must run the same program "
          "with the same config on like devices");
  }
}

TEST_CASE("ranks with different texts meet an error with the first line that differs") {
  const auto error_of = [](const std::string& first, const std::string& second) {
    const auto ranks = std::make_shared<LocalRanks>(2);
    std::vector<std::string> errors(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          require_same_text({.communicator = {ranks, &ranks->of(rank)}}, rank == 0 ? first : second, "the text");
        } catch (const CommunicationError& error) {
          errors[static_cast<std::size_t>(rank)] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
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

TEST_CASE("options that ranks cannot share are errors that say what was expected") {
  const auto ranks = std::make_shared<LocalRanks>(2);
  const auto error = [&](ParallelOptions options) {
    options.communicator = {ranks, &ranks->of(0)};
    try {
      Session session({.device = "cpu", .parallel = options});
    } catch (const Error& caught) {
      return std::string(caught.what());
    }
    return std::string();
  };
  CHECK(error({.shards = 3}) ==
        "[parallel] expected shards to be a multiple of the number of ranks, 2, or 0 for one each, got 3");
  CHECK(error({.shards = -2}).find("got -2") != std::string::npos);
  CHECK(error({.bucket_bytes = -1}) == "[parallel] expected bucket_bytes of at least 0, got -1");
  Session session({.device = "cpu", .parallel = {.shards = 4}});
  Step step = session.step();
  CHECK_THROWS_WITH_AS(place(Array(DType::f32, {6, 2}), Layout::split),
                       "[place] expected rows for 4 equal shards on each of 1 ranks, got an array of shape [6,2]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(place(Array(DType::f32, {8, 2}), Layout::partial_sum),
                       "[place] expected an array that is replicated or split, got partial sum", Error);
  step.discard();
}

TEST_CASE("in fast mode ranks agree with each other, and with exact mode up to rounding") {
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    const std::vector<Result> fast = train_on_ranks({.ranks = ranks, .streams = 2});
    const Result exact = train({.shards = ranks}, nullptr);
    for (const Result& result : fast) {
      CHECK(result.hash() == fast.front().hash());
      CHECK(relative_distance(result, exact) < 1e-6);
      CHECK(std::abs(result.losses.front() - exact.losses.front()) < 1e-6);
      CHECK(result.accuracies.front() == doctest::Approx(exact.accuracies.front()).epsilon(1e-6));
    }
  }
}
