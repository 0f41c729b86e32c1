// The stages of a pipeline, as threads of one process, train what one rank trains.

#include "runtime/compile/ranks/pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>

#include "autograd/functions.h"
#include "core/base/hash.h"
#include "core/comm/local/local_ranks.h"
#include "models/layers/layers.h"
#include "runtime/compile/planner.h"
#include "runtime/session.h"
#include "scheduler/check/rank_verifier.h"
#include "scheduler/policy.h"
#include "tests/core/on_all.h"
#include "tests/effort.h"
#include "tests/noise.h"
#include "train/optimizer.h"

namespace braid::testing::pipeline {
namespace {

constexpr std::int64_t kSamples = 12, kSide = 8;

/// Layers conv1 to fc. Values skip layers, and one has its weights in two places, so that both cross several stages.
/// The labels are read on the first stage, too, after the last one.
class Branched final : public Module {
 public:
  explicit Branched(Context& context)
      : Module(context),
        conv1_(add<ConvLayer>("conv1", 3, 16, 3, Conv2dOptions{.padding = 1})),
        norm1_(add<BatchNormLayer>("norm1", 16)),
        conv2_(add<ConvLayer>("conv2", 16, 16, 3, Conv2dOptions{.padding = 1})),
        norm2_(add<BatchNormLayer>("norm2", 16)),
        conv3_(add<ConvLayer>("conv3", 16, 16, 1, Conv2dOptions{})),
        early_(add<LinearLayer>("early", 16, 10)),
        fc_(add<LinearLayer>("fc", 16, 10)) {}

  Tensor forward(const Tensor& images) override {
    const Tensor x = relu(norm1_(conv1_(images)));
    early_logits_ = early_(global_avg_pool(x));
    const Tensor y = relu(norm2_(conv2_(x)) + x);
    const Tensor z = conv2_(conv3_(y));  // the weights of conv2 again, on a later stage
    return fc_(dropout(global_avg_pool(z + x), 0.2, 1));
  }

  /// The logits of a second classifier, after the first layers.
  const Tensor& early_logits() const { return early_logits_; }

 private:
  Tensor early_logits_;
  ConvLayer& conv1_;
  BatchNormLayer& norm1_;
  ConvLayer& conv2_;
  BatchNormLayer& norm2_;
  ConvLayer& conv3_;
  LinearLayer &early_, &fc_;
};

const std::vector<std::string> kLayers{"norm1", "conv2", "norm2", "conv3", "fc"};  // that a stage may begin with

struct Setting {
  std::vector<std::string> stages = {};  // on that many ranks and one; a lone rank runs all
  std::string order = "auto";
  int streams = 1;
  DType dtype = DType::f32;
  bool adam = false;
  double clip_norm = 0;
  Link link = {.units = 1};
};

/// Records the backward pass. Returns the gradient with respect to the loss itself, which no stage computes from
/// others.
Tensor gradient_of(const Tensor& loss) {
  backward(loss);
  return gradient(loss);
}

/// The losses, and all tensors at the end.
Hash train(const Setting& setting, std::shared_ptr<Communicator> communicator) {
  ParallelOptions parallel{.communicator = std::move(communicator), .virtual_ranks = 4, .pipeline = setting.order};
  parallel.layers.stages = setting.stages;
  Session session({.device = "cpu", .streams = setting.streams, .threads = 2, .parallel = std::move(parallel)});
  Branched network(session);
  std::unique_ptr<Optimizer> optimizer =
      std::make_unique<SGD>(network.parameters(), SGD::Options{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
  if (setting.adam) optimizer = std::make_unique<Adam>(network.parameters(), Adam::Options{});
  optimizer->clip_norm(setting.clip_norm);
  Hash hash;
  const auto record = [&](int i, bool trains) {
    network.train(trains);
    Step step = session.step();
    const auto [images, labels] = random_samples(static_cast<std::uint64_t>(i), 0, kSamples, kSide, 10);
    const Tensor logits = cast(network(cast(place(images, Layout::split), setting.dtype)), DType::f32).keep();
    const Tensor y = place(labels, Layout::split), top1 = accuracy(logits, y);
    const Tensor loss = cross_entropy(logits, y) + cross_entropy(cast(network.early_logits(), DType::f32), y) * 0.3;
    const Tensor seed = trains ? gradient_of(loss).keep() : loss;
    if (trains) optimizer->step();
    step.run();
    hash.add(loss.item()).add(top1.item()).add(seed.item());
    const Array array = logits.array();
    hash.add(std::string_view(reinterpret_cast<const char*>(array.data()), array.bytes()));
  };
  for (int i = 0; i < (kEveryCase ? 3 : 2); ++i) record(i, true);
  record(0, false);
  std::vector<Parameter*> tensors = network.tensors();
  std::ranges::copy(optimizer->states(false), std::back_inserter(tensors));
  for (const Parameter* tensor : tensors) {
    const Array array = session.read(*tensor);
    hash.add(std::string_view(reinterpret_cast<const char*>(array.data()), array.bytes()));
  }
  return hash;
}

/// The stages that begin with these of the layers.
std::vector<std::string> stages_at(std::initializer_list<std::size_t> layers) {
  std::vector<std::string> stages;
  for (const std::size_t layer : layers) stages.push_back(kLayers[layer]);
  return stages;
}

}  // namespace

TEST_CASE("the stages of a pipeline train and evaluate with the bits of one rank, in every order") {
  const Link slow{.latency_seconds = 1e-4, .bytes_per_second = 2e8};
  const std::vector<Setting> settings{
      {.stages = stages_at({1}), .order = "1f1b"},
      {.stages = stages_at({2}), .order = "gpipe", .streams = 2, .adam = true, .link = slow},
      {.stages = stages_at({1, 3}), .order = "zb_h1", .dtype = DType::bf16, .clip_norm = 1},
      {.stages = stages_at({0, 2, 4}), .order = "auto", .streams = 2, .clip_norm = 1, .link = slow},
      {.stages = stages_at({1, 2, 3}), .order = "zb_h1", .streams = 0, .adam = true},
      {.stages = stages_at({0, 1, 2, 3, 4}), .order = "1f1b", .dtype = DType::bf16, .adam = true},
  };
  for (std::size_t i = 0; i < settings.size(); i += kEveryCase ? 1 : 3) {
    CAPTURE(i);
    const Hash alone = train(settings[i], nullptr);
    const auto ranks = std::make_shared<LocalRanks>(static_cast<int>(settings[i].stages.size()) + 1, settings[i].link);
    const auto errors = on_ranks(*ranks, [&](Communicator& own) {
      if (train(settings[i], {ranks, &own}) != alone) throw Error("other bits");
    });
    for (const std::string& error : errors) CHECK(error == "");
  }
}

TEST_CASE("a pipeline refuses a step in which a micro-batch needs all of them, and what divides layers") {
  const auto ranks = std::make_shared<LocalRanks>(2);
  const auto refusals = [&](const ParallelOptions& options, int steps) {
    return on_ranks(*ranks, [&](Communicator& own) {
      ParallelOptions parallel = options;
      parallel.communicator = {ranks, &own};
      parallel.layers.stages = {"conv2"};
      Session session({.device = "cpu", .threads = 1, .parallel = parallel});
      Branched network(session);
      SGD sgd(network.parameters(), {.lr = 0.1});
      Step step = session.step();
      for (int i = 0; i < steps; ++i) {
        const auto [images, labels] = random_samples(1, 0, kSamples, kSide, 10);
        backward(cross_entropy(network(place(images, Layout::split)), place(labels, Layout::split)));
        sgd.step();
      }
      step.run();
    });
  };
  for (const std::string& error : refusals({.virtual_ranks = 4}, 2)) {
    CHECK(error.find("of a micro-batch reads what") != std::string::npos);
    CHECK(error.find("computes from all of them: a pipeline cannot run this step") != std::string::npos);
  }
  const auto ranks2 = std::make_shared<LocalRanks>(2);
  for (const std::string& error : on_ranks(*ranks2, [&](Communicator& own) {
         ParallelOptions parallel{.communicator = {ranks2, &own}, .virtual_ranks = 4, .sync_batch_norm = true};
         parallel.layers.stages = {"conv2"};
         const Session session({.device = "cpu", .threads = 1, .parallel = parallel});
       })) {
    CHECK(error.find("[parallel] a pipeline runs whole layers") == 0);
  }
}

TEST_CASE("the rank verifier accepts the plans of all stages, and finds messages in another order") {
  ParallelOptions parallel{.virtual_ranks = 4, .pipeline = "1f1b"};
  parallel.layers.stages = {"conv2", "conv3"};
  Session recording({.device = "cpu", .threads = 1, .parallel = parallel});
  Branched network(recording);
  SGD sgd(network.parameters(), {.lr = 0.1});
  Step step = recording.step();
  const auto [images, labels] = random_samples(1, 0, kSamples, kSide, 10);
  backward(cross_entropy(network(place(images, Layout::split)), place(labels, Layout::split)));
  sgd.step();
  DeviceInfo device = recording.backend().info();
  device.link = {.units = 1};
  const scheduler::CostModel model{device, {1}};
  const Pipelined made = pipelined(recording.tape().graph(), parallel, model, recording);
  step.discard();
  REQUIRE(made.stages.size() == 3);
  std::vector<scheduler::Problem> problems;
  std::vector<scheduler::Plan> plans;
  for (const RewrittenGraph& stage : made.stages) {
    problems.push_back(model.problem(stage.graph, 2));
    plans.push_back(scheduler::make_plan(problems.back(), scheduler::find_policy("critical_path"), "critical_path"));
  }
  const std::vector<std::int32_t> roles{0, 1, 2};
  const auto faults = [&] {
    std::vector<scheduler::RankPlan> ranks;
    for (std::size_t s = 0; s < plans.size(); ++s) ranks.push_back({&problems[s], &plans[s]});
    return scheduler::verify_ranks(ranks, roles);
  };
  CHECK(faults().empty());
  std::vector<scheduler::RankPlan> all;
  for (std::size_t s = 0; s < plans.size(); ++s) all.push_back({&problems[s], &plans[s]});
  const std::vector<scheduler::Simulation> together = scheduler::simulate(all);
  for (std::size_t s = 0; s < plans.size(); ++s) {  // alone, a stage waits for no other
    CHECK(together[s].makespan >= scheduler::simulate(problems[s], plans[s]).makespan);
  }
  // The first stage on two ranks: both send to rank 1.
  CHECK_THROWS_AS(static_cast<void>(scheduler::simulate(std::vector{all[0], all[0]})), PlanError);
  // Two messages of the middle stage that follow one another, with the same stage, exchanged.
  int swaps = 0;
  for (auto& commands : plans[1].commands.streams) {
    std::vector<std::size_t> messages;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const bool launches = commands[i].kind == Command::Kind::launch;
      if (launches && problems[1].graph.communicates(commands[i].index)) messages.push_back(i);
    }
    for (std::size_t i = 1; i < messages.size(); ++i) {
      const auto peer = [&](std::size_t k) {
        return problems[1].graph.communication(commands[messages[k]].index).exchanged->peer;
      };
      if (peer(i - 1) != peer(i)) continue;  // may not matter
      std::swap(commands[messages[i - 1]], commands[messages[i]]);
      CHECK_FALSE(faults().empty());
      std::swap(commands[messages[i - 1]], commands[messages[i]]);
      ++swaps;
    }
  }
  CHECK(swaps >= 5);
  CHECK(faults().empty());
}

}  // namespace braid::testing::pipeline
