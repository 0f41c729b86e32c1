// Ranks as threads of one process train what one rank trains.

#include <doctest/doctest.h>

#include <cmath>
#include <exception>

#include "autograd/functions.h"
#include "core/base/hash.h"
#include "core/comm/local/local_ranks.h"
#include "models/zoo/blocks/resnet.h"
#include "ops/rewrites/partition.h"
#include "runtime/agreement.h"
#include "runtime/session.h"
#include "tests/core/on_all.h"
#include "tests/effort.h"
#include "tests/noise.h"
#include "train/optimizer.h"

using namespace braid;
using namespace braid::testing;

namespace {

constexpr std::int64_t kSamples = 24, kSide = 8;

/// The samples [first, first + count) of a step.
std::pair<Array, Array> samples(int step, std::int64_t first, std::int64_t count) {
  return random_samples(static_cast<std::uint64_t>(step), first, count, kSide, 10);
}

std::unique_ptr<Module> make_network(Context& context) {
  if (!kOnce) return std::make_unique<models::ResNet>(context, 20, models::ResNetOptions{});
  auto network = std::make_unique<Sequential>(context);
  for (const std::int64_t channels : {3, 64}) {
    network->append<ConvLayer>(channels, 64, 3, Conv2dOptions{.padding = 1});
    network->append<BatchNormLayer>(64, Activation::relu);
  }
  network->append<FunctionLayer>(global_avg_pool);
  network->append<LinearLayer>(64, 10);
  return network;
}

struct Setting {
  int ranks = 1;
  int shards = 0;
  int streams = 1;
  std::int64_t bucket_bytes = 100'000;  // 0 tries many plans
  DType dtype = DType::f32;
  int steps = kEveryCase ? 4 : 2;
  int turn = 1;  // steps that are recorded as one
  bool sync_batch_norm = false;
  Sharded shard = Sharded::nothing;
  bool adam = false;
  double clip_norm = 0;
  Strategy layers = {};
  Compression compression = {};
  int staleness = 0;
  int average_every = 0;
  Link link = {.units = 1};
};

/// What a rank has at the end.
struct Result {
  std::vector<double> losses, accuracies;
  std::vector<Array> tensors;    // weights, statistics, momentum
  std::vector<Array> gradients;  // gradients of the first step
  std::size_t persistent_bytes = 0;

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
  Session session({.device = "cpu",
                   .streams = setting.streams,
                   .threads = 2,
                   .parallel = {.communicator = std::move(communicator),
                                .virtual_ranks = setting.shards,
                                .bucket_bytes = setting.bucket_bytes,
                                .zero = setting.shard,
                                .layers = setting.layers,
                                .sync_batch_norm = setting.sync_batch_norm,
                                .compression = setting.compression,
                                .staleness = setting.staleness,
                                .average_every = setting.average_every}});
  const auto network = make_network(session);
  std::unique_ptr<Optimizer> optimizer =
      std::make_unique<SGD>(network->parameters(), SGD::Options{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
  if (setting.adam) optimizer = std::make_unique<Adam>(network->parameters(), Adam::Options{});
  optimizer->clip_norm(setting.clip_norm);
  Result result;
  const std::int64_t own = kSamples / setting.ranks;
  for (int i = 0; i < setting.steps; i += setting.turn) {
    Step step = session.step();
    std::vector<Tensor> losses, accuracies, gradients;
    for (int k = i; k < i + setting.turn; ++k) {
      RandomState random{.step = k};
      const Context::RandomScope scope(session, random);
      const auto [images, labels] = samples(k, rank * own, own);
      const Tensor x = cast(dropout(place(images, Layout::split), 0.2, 0), setting.dtype);
      const Tensor y = place(labels, Layout::split);
      const Tensor logits = cast((*network)(x), DType::f32);
      losses.push_back(cross_entropy(logits, y, 0.1));
      accuracies.push_back(accuracy(logits, y));
      backward(losses.back());
      if (k == 0) {
        for (Parameter* parameter : network->parameters())
          gradients.push_back(cast(gradient(*parameter), DType::f32).keep());
      }
      optimizer->step();
      if (setting.average_every > 0 && (k + 1) % setting.average_every == 0) {
        average_over_ranks(network->tensors());
        average_over_ranks(optimizer->states());
      }
    }
    step.run();
    for (const Tensor& loss : losses) result.losses.push_back(loss.item());
    for (const Tensor& top1 : accuracies) result.accuracies.push_back(top1.item());
    for (const Tensor& gradient : gradients) result.gradients.push_back(gradient.array());
  }
  for (Parameter* tensor : network->tensors()) result.tensors.push_back(session.read(*tensor));
  result.persistent_bytes = session.stats().persistent_bytes;
  for (Parameter* state : optimizer->states(false)) result.tensors.push_back(session.read(*state));
  return result;
}

/// The results of all ranks. What a rank throws ends the others.
std::vector<Result> train_on_ranks(const Setting& setting) {
  const auto ranks = std::make_shared<LocalRanks>(setting.ranks, setting.link);
  std::vector<Result> results(static_cast<std::size_t>(setting.ranks));
  const auto errors = on_ranks(*ranks, [&](Communicator& own) {
    results[static_cast<std::size_t>(own.rank())] = train(setting, {ranks, &own});
  });
  REQUIRE(errors == std::vector<std::string>(errors.size()));
  return results;
}

/// |a − b| / |b|, of the elements of all arrays together.
double relative_distance(const std::vector<Array>& a, const std::vector<Array>& b) {
  double difference = 0, norm = 0;
  for (std::size_t t = 0; t < b.size(); ++t) {
    for (std::size_t e = 0; e < static_cast<std::size_t>(b[t].size()); ++e) {
      const double x = a[t].as<float>()[e], y = b[t].as<float>()[e];
      difference += (x - y) * (x - y), norm += y * y;
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace

constexpr Link kFast{.units = 1}, kSlow{.latency_seconds = 1e-4, .bytes_per_second = 2e8};

TEST_CASE("in exact mode a training has the same bits on any number of ranks") {
  int cases = 0;
  const auto check = [&](int shards, std::initializer_list<int> all_ranks, DType dtype) {
    const Result alone = train({.shards = shards, .dtype = dtype}, nullptr);
    for (const int ranks : all_ranks) {
      for (const auto& [streams, bytes, link] : {std::tuple{1, 40'000, kSlow}, {2, 1, kFast}, {4, 25 << 20, kFast}}) {
        if (cases++ % (kEveryCase ? 2 : 4) != 0) continue;  // each setting, on each number of ranks
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
  for (const Result& result : train_on_ranks({.ranks = 2, .shards = 4, .bucket_bytes = 0}))
    CHECK(result.hash() == alone);
}

TEST_CASE("statistics of batch norm that are those of all samples make a training that of the whole batch") {
  // After more steps, rounding errors have grown.
  const Result whole = train({.steps = 1}, nullptr),
               synchronised = train({.shards = 4, .sync_batch_norm = true}, nullptr);
  for (const Result& result : train_on_ranks({.ranks = 4, .streams = 2, .steps = 1, .sync_batch_norm = true})) {
    CHECK(std::abs(result.losses[0] - whole.losses[0]) < 1e-5);
    CHECK(relative_distance(result.gradients, whole.gradients) < 1e-5);
    CHECK(relative_distance(result.tensors, whole.tensors) < 1e-5);
  }
  const Result apart = train({.shards = 4, .steps = 1}, nullptr);
  CHECK(relative_distance(apart.gradients, whole.gradients) > 1e-2);  // without, it is another training
  for (const Result& result : train_on_ranks({.ranks = 2, .shards = 4, .sync_batch_norm = true})) {
    CHECK(result.hash() == synchronised.hash());
  }
}

TEST_CASE("ranks that hold pieces of parameters and moments train as those that hold all of them, in less memory") {
  struct Row {
    int ranks;
    Sharded shard;
    int streams, turn;
    Link link;  // a link between hosts takes no cores
  };
  int cases = 0;
  for (const auto& [adam, dtype] : {std::pair{false, DType::f32}, {true, DType::f32}, {false, DType::bf16}}) {
    Result alone = train({.shards = 12, .dtype = dtype, .adam = adam}, nullptr);
    const std::size_t bytes = alone.persistent_bytes;
    // Copies of bf16 are not kept, so that sums of gradients are not rounded to it.
    if (dtype == DType::bf16) {
      alone = train_on_ranks({.ranks = 2, .shards = 12, .dtype = dtype, .shard = Sharded::optimizer}).front();
    }
    for (const Row& row : {Row{2, Sharded::optimizer, 1, 1, kFast},
                           {3, Sharded::parameters, 2, 2, kFast},
                           {4, Sharded::parameters, 1, 1, kSlow}}) {
      if (cases++ % (kEveryCase ? 2 : 4) != 0) continue;  // each row, and each kind of optimizer and dtype
      CAPTURE(row.ranks);
      for (const Result& result : train_on_ranks({.ranks = row.ranks,
                                  .shards = 12,
                                  .streams = row.streams,
                                  .bucket_bytes = 100'000,
                                  .dtype = dtype,
                                  .turn = row.turn,
                                  .shard = row.shard,
                                  .adam = adam,
                                  .link = row.link})) {
        CHECK(result.hash() == alone.hash());
        CHECK(static_cast<double>(result.persistent_bytes) < 1.1 / row.ranks * static_cast<double>(bytes));
      }
    }
  }
  // The engine's all-reduces, and gradients that are needed whole.
  const std::vector<Result> whole = train_on_ranks({.ranks = 2, .clip_norm = 0.5});
  const std::vector<Result> pieces = train_on_ranks({.ranks = 2, .shard = Sharded::optimizer, .clip_norm = 0.5});
  CHECK(pieces[0].hash() == pieces[1].hash());
  CHECK(relative_distance(pieces[0].gradients, whole[0].gradients) < 1e-6);
  CHECK(std::abs(pieces[0].losses.back() - whole[0].losses.back()) < 1e-5);
  const std::vector<Result> fast = train_on_ranks({.ranks = 3, .steps = 2, .shard = Sharded::parameters});
  for (const Result& result : fast) CHECK(result.hash() == fast.front().hash());
  CHECK(std::abs(fast[0].losses[1] - train_on_ranks({.ranks = 3, .steps = 2})[0].losses[1]) < 1e-5);
}

TEST_CASE("a tensor of one element in pieces is rank 0's") {
  const auto ranks = std::make_shared<LocalRanks>(2);
  const auto errors = on_all<std::exception>(*ranks, [&](Communicator& own) {
    Session session(
        {.device = "cpu", .streams = 1, .parallel = {.communicator = {ranks, &own}, .zero = Sharded::optimizer}});
    Parameter& one = session.add("one", {DType::f32, {1}}, ValueKind::parameter);
    session.write(one, Array::from<float>({3}, {1}));
    CHECK(*static_cast<const float*>(one.data()) == (own.rank() == 0 ? 3 : 0));
    CHECK(session.read(one).as<float>()[0] == 3);
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("layers divided along other dimensions than samples train as whole ones, with parts of their parameters") {
  const Strategy layers = kOnce ? Strategy{{"0", "h"}, {"2", "c"}, {"5", "_"}}
                                : Strategy{{"conv1", "h"},          {"layer1.0.conv1", "c"}, {"layer1.2.conv2", "w"},
                                           {"layer3.0.conv1", "c"}, {"layer3.2.conv2", "c"}, {"fc", "_"}};
  struct Row {
    int ranks;
    Sharded shard;
    int streams, turn;
    bool adam;
    DType dtype;
  };
  for (const Row& row : {Row{2, Sharded::nothing, 1, 1, false, DType::f32},
                         {4, Sharded::nothing, 2, 2, true, DType::f32},
                         {2, Sharded::parameters, 1, 2, false, DType::bf16}}) {
    CAPTURE(row.ranks);
    Setting setting{.shards = 4,
                    .streams = row.streams,
                    .dtype = row.dtype,
                    .turn = row.turn,
                    .shard = row.shard,
                    .adam = row.adam,
                    .layers = layers};
    const Result alone = train(setting, nullptr);
    setting.ranks = row.ranks;
    for (const Result& result : train_on_ranks(setting)) {
      // In pieces, other parameters have no copies in bf16, so that sums of their gradients are not rounded.
      if (row.shard == Sharded::nothing) CHECK(result.hash() == alone.hash());
      CHECK(result.persistent_bytes < alone.persistent_bytes);
    }
  }
  const Result whole = train({.steps = 2, .sync_batch_norm = true, .clip_norm = 0.5}, nullptr);
  for (const int ranks : {2, 4}) {
    const std::vector<Result> divided =
        train_on_ranks({.ranks = ranks, .steps = 2, .sync_batch_norm = true, .clip_norm = 0.5, .layers = layers});
    for (const Result& result : divided) {
      CHECK(result.hash() == divided.front().hash());
      CHECK(relative_distance(result.gradients, whole.gradients) < 1e-5);
      CHECK(std::abs(result.losses.back() - whole.losses.back()) < 1e-5);
    }
  }
}

TEST_CASE("the rows of a tensor that is divided along channels are no halos") {
  if (kOnce) return;  // another network
  const Strategy layers{{"layer3.2.conv1", "c"}, {"layer3.2.conv2", "w"}};
  Setting setting{.shards = 4, .steps = 1, .sync_batch_norm = true, .layers = layers};
  const Result alone = train(setting, nullptr);
  setting.ranks = 2;
  for (const Result& result : train_on_ranks(setting)) CHECK(result.hash() == alone.hash());
}

TEST_CASE("a residual network divided along height trains as a whole one and gathers no activation for batch norm") {
  if (kOnce) return;                                   // another network
  const Strategy layers{{"conv1", "h"}, {"fc", "n"}};  // the others as their inputs
  Setting setting{.shards = 2, .layers = layers};
  const Result alone = train(setting, nullptr);
  setting.ranks = 2;
  for (const Result& result : train_on_ranks(setting)) CHECK(result.hash() == alone.hash());
  const Result whole = train({.steps = 2, .sync_batch_norm = true}, nullptr);
  for (const Result& result : train_on_ranks({.ranks = 2, .steps = 2, .layers = layers})) {
    CHECK(relative_distance(result.gradients, whole.gradients) < 1e-5);
    CHECK(std::abs(result.losses.back() - whole.losses.back()) < 1e-5);
  }

  Session session({.device = "cpu", .parallel = {.virtual_ranks = 2, .layers = layers}});
  const auto network = make_network(session);
  Step step = session.step();
  const auto [images, labels] = samples(0, 0, kSamples);
  backward(cross_entropy((*network)(place(images, Layout::split)), place(labels, Layout::split)));
  const StepGraph divided = ops::partition(session.tape().graph(), {.ranks = 2, .shards = 2}).graph;
  step.discard();
  for (const Node& node : divided.nodes()) {
    if (node.op->name() != "all_gather") continue;
    CHECK(divided.value(divided.inputs(node).front()).desc.shape.rank() < 4);  // no activation
  }
}

TEST_CASE("layers divided along two dimensions train as whole ones, on any ranks of the mesh") {
  Strategy layers = kOnce ? Strategy{{"0", "hw"}, {"2", "cc"}, {"5", "__"}}
                          : Strategy{{"conv1", "hw"},
                                     {"layer1.0.conv1", "nc"},
                                     {"layer1.2.conv2", "wh"},
                                     {"layer2.1.conv1", "nn"},
                                     {"layer3.0.conv1", "cc"},
                                     {"layer3.2.conv2", "c_"},
                                     {"fc", "_n"}};
  layers.second_axis = 2;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Setting setting{.shards = 4, .dtype = dtype, .layers = layers};
    const Result alone = train(setting, nullptr);
    for (const int ranks : {2, 4}) {
      CAPTURE(ranks);
      setting.ranks = ranks;
      for (const Result& result : train_on_ranks(setting)) CHECK(result.hash() == alone.hash());
    }
  }
  const Result whole = train({.steps = 2, .sync_batch_norm = true}, nullptr);
  for (const Result& result : train_on_ranks({.ranks = 4, .steps = 2, .sync_batch_norm = true, .layers = layers})) {
    CHECK(relative_distance(result.gradients, whole.gradients) < 1e-5);
    CHECK(std::abs(result.losses.back() - whole.losses.back()) < 1e-5);
  }
}

TEST_CASE("compressed and delayed gradients train alike on any number of ranks") {
  using Method = Compression::Method;
  struct Row {
    Compression compression;
    int staleness, turn;
    DType dtype;
    bool adam;
    Sharded shard;
  };
  for (const Row& row : {Row{{Method::top_k, 0.05}, 0, 1, DType::f32, false, Sharded::nothing},
                         {{Method::random_k, 0.1}, 0, 1, DType::bf16, true, Sharded::nothing},
                         {{Method::int8}, 1, 2, DType::f32, false, Sharded::optimizer},
                         {{Method::sign}, 0, 2, DType::f32, true, Sharded::nothing},
                         {{}, 1, 1, DType::f32, false, Sharded::nothing},
                         {{}, 2, 2, DType::bf16, true, Sharded::nothing}}) {
    CAPTURE(name_of(row.compression.method));
    CAPTURE(row.staleness);
    Setting setting{.shards = 4,
                    .dtype = row.dtype,
                    .steps = 4,
                    .turn = row.turn,
                    .adam = row.adam,
                    .clip_norm = 0.5,
                    .compression = row.compression,
                    .staleness = row.staleness};
    const Result alone = train(setting, nullptr);
    setting.shard = row.shard;
    for (const int ranks : {2, 4}) {
      setting.ranks = ranks;
      setting.streams = ranks == 2 ? 1 : 2;
      for (const Result& result : train_on_ranks(setting)) CHECK(result.hash() == alone.hash());
    }
  }
  // What is complete changes nothing, and what is late changes only what depends on it.
  const Result plain = train({.shards = 2, .steps = 4}, nullptr);
  const Result complete =
      train({.shards = 2, .steps = 4, .compression = {.method = Method::top_k, .ratio = 1}}, nullptr);
  CHECK(complete.losses == plain.losses);
  const Result late = train({.shards = 2, .steps = 4, .staleness = 1}, nullptr);
  CHECK(relative_distance(late.gradients, plain.gradients) == 0);
  CHECK(late.losses.back() != plain.losses.back());
}

TEST_CASE(
    "ranks that train by themselves agree after every average, which is another training unless it is of each step") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int turn : {1, 2}) {
      CAPTURE(dtype);
      CAPTURE(turn);
      Setting setting{.ranks = 3, .dtype = dtype, .steps = 4, .turn = turn};
      setting.average_every = 1;
      const std::vector<Result> each = train_on_ranks(setting);
      for (const Result& result : each) CHECK(result.hash() == each.front().hash());
      setting.average_every = 4;
      const std::vector<Result> rarely = train_on_ranks(setting);
      for (const Result& result : rarely) CHECK(result.hash() == rarely.front().hash());
      CHECK(rarely.front().losses.front() == each.front().losses.front());
      CHECK(relative_distance(rarely.front().tensors, each.front().tensors) > 1e-3);
      setting.average_every = 3;  // the last step is after it
      const std::vector<Result> apart = train_on_ranks(setting);
      CHECK(apart[0].hash() != apart[1].hash());
      CHECK(apart[0].losses == apart[1].losses);  // these are of all samples
    }
  }
  // After more steps, rounding errors have grown.
  const Result together = train_on_ranks({.ranks = 3, .steps = 1}).front();
  for (const Result& result : train_on_ranks({.ranks = 3, .steps = 1, .average_every = 1})) {
    CHECK(relative_distance(result.tensors, together.tensors) < 1e-6);
  }
}

TEST_CASE("ranks that train by themselves share single elements, such as the statistics of one channel") {
  const auto ranks = std::make_shared<LocalRanks>(2);
  const auto errors = on_all<std::exception>(*ranks, [&](Communicator& own) {
    Session session({.device = "cpu", .streams = 1, .parallel = {.communicator = {ranks, &own}, .average_every = 2}});
    BatchNormLayer norm(session, 1, Activation::none);
    SGD sgd(norm.parameters(), {.lr = 0.1});
    Step step = session.step();
    const Tensor y = norm(place(noise({2, 4, 4, 1}, static_cast<std::uint64_t>(own.rank())), Layout::split));
    backward(sum(y * y * y));
    sgd.step();
    step.run();
    require_same_bits(session, norm.tensors(), "the layer");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("gradients are on their way while others are computed, where that saves time" * doctest::skip(kOnce)) {
  const auto makespan_of = [](const std::string& policy, bool& beside) {
    const auto ranks = std::make_shared<LocalRanks>(2, kSlow);
    double makespan = 0;
    const auto errors = on_all(*ranks, [&](Communicator& own) {
      Session session({.device = "cpu",
                       .streams = 1,
                       .policy = policy,
                       .threads = 1,
                       .parallel = {.communicator = {ranks, &own}, .bucket_bytes = 100'000}});
      models::ResNet network = models::resnet20(session);
      const auto [images, labels] = samples(0, 12 * own.rank(), 12);
      Step step = session.step();
      backward(cross_entropy(network(place(images, Layout::split)), place(labels, Layout::split)));
      for (Parameter* parameter : network.parameters()) static_cast<void>(gradient(*parameter).keep());
      step.run();
      session.synchronize();
      if (own.rank() != 0) return;
      makespan = step.plan().makespan;
      beside = step.plan().commands.used_streams() == 2;
    });
    REQUIRE(errors == std::vector<std::string>(2));
    return makespan;
  };
  bool serial_beside = true, beside = false;
  const double in_turn = makespan_of("serial", serial_beside), overlapped = makespan_of("critical_path", beside);
  CHECK(!serial_beside);
  CHECK(beside);
  CHECK(overlapped < 0.9 * in_turn);
}

TEST_CASE("in fast mode ranks agree with each other, and with exact mode up to rounding") {
  for (const int ranks : {2, 3, 4}) {
    if (!kEveryCase && ranks != 3) continue;
    CAPTURE(ranks);
    const std::vector<Result> fast = train_on_ranks({.ranks = ranks, .streams = 2});
    const Result exact = train({.shards = ranks}, nullptr);
    for (const Result& result : fast) {
      CHECK(result.hash() == fast.front().hash());
      CHECK(relative_distance(result.gradients, exact.gradients) < 1e-6);
      CHECK(std::abs(result.losses.front() - exact.losses.front()) < 1e-6);
      CHECK(result.accuracies.front() == doctest::Approx(exact.accuracies.front()).epsilon(1e-6));
    }
  }
}
