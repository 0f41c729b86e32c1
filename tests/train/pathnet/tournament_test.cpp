#include "train/pathnet/tournament.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "data/synthetic.h"

namespace braid {
namespace {

using models::Genotype;
using models::PathNet;
using models::PathNetOptions;
using Form = PathNetOptions::Form;

const auto kGoOn = [] { return false; };

/// A net on two classes of small images, and its candidates' trainer.
struct Setting {
  explicit Setting(const TournamentOptions& tournament, Form form = Form::linear, int streams = 1)
      : session({.device = "cpu", .streams = streams, .intra_op_threads = 1, .seed = 5}),
        net(session,
            {.form = form, .grid = {.layers = 2, .modules = 6, .active = 3}, .width = 4, .image_shape = {6, 6, 1}}),
        task(net.add_task("task", 2)),
        trainer(session, net, task, synthetic({.size = 60, .shape = {6, 6, 1}, .classes = 2}),
                {.batch_size = 8, .seed = 9, .workers = 0}, tournament) {}

  std::map<std::string, Array> tensors() {
    std::map<std::string, Array> all;
    for (const auto& list : {net.parameters(), net.states()}) {
      for (const Parameter* parameter : list) all.emplace(parameter->name(), session.read(*parameter));
    }
    return all;
  }

  Session session;
  PathNet net;
  int task;
  CandidateTrainer trainer;
};

bool same(const Array& a, const Array& b) { return std::memcmp(a.data(), b.data(), a.bytes()) == 0; }

/// Names of tensors that differ.
std::vector<std::string> differences(const std::map<std::string, Array>& a, const std::map<std::string, Array>& b) {
  std::vector<std::string> names;
  for (const auto& [name, array] : a) {
    if (!same(array, b.at(name))) names.push_back(name);
  }
  return names;
}

const std::vector<Genotype> kDisjoint{{{{0, 1, 1}, {0, 2, 2}}}, {{{3, 4, 5}, {1, 4, 4}}}};
const std::vector<Genotype> kSharing{{{{0, 1, 1}, {0, 2, 2}}}, {{{1, 4, 5}, {1, 4, 4}}}};

TEST_CASE("candidates that share nothing train alike in one step and one after the other, bit by bit") {
  for (const auto& [form, dtype] :
       {std::pair{Form::linear, DType::f32}, {Form::conv, DType::f32}, {Form::conv, DType::bf16}}) {
    const auto run = [&, form = form, dtype = dtype](Tournament order, int streams) {
      Setting setting({.order = order, .batches = 6, .lr = 0.05, .dtype = dtype}, form, streams);
      for (Parameter* parameter : setting.net.parameters()) {  // all paths share the last layer
        if (parameter->name().starts_with("task.")) parameter->trainable = false;
      }
      const auto before = setting.tensors();
      const std::vector<double> fitness = setting.trainer.train(kDisjoint, kGoOn);
      CHECK(differences(before, setting.tensors()).size() == (form == Form::linear ? 9 * 2 : 9 * 5));
      return std::pair(fitness, setting.tensors());
    };
    const auto sequential = run(Tournament::sequential, 1);
    for (const int streams : {1, 2}) {
      const auto concurrent = run(Tournament::concurrent, streams);
      CHECK(concurrent.first == sequential.first);
      CHECK(differences(concurrent.second, sequential.second).empty());
    }
  }
}

TEST_CASE("candidates that share a module train it differently in the two orders") {
  const auto run = [&](Tournament order) {
    Setting setting({.order = order, .batches = 6, .lr = 0.05});
    setting.trainer.train(kSharing, kGoOn);
    return setting.tensors();
  };
  const auto names = differences(run(Tournament::concurrent), run(Tournament::sequential));
  CHECK(std::ranges::count(names, "layer0.1.linear.weight") == 1);
  CHECK(std::ranges::count(names, "task.weight") == 1);
}

TEST_CASE("sequential candidates train in turn: the first as if it were alone") {
  Setting setting({.order = Tournament::sequential, .batches = 6, .lr = 0.05});
  Setting other({.order = Tournament::sequential, .batches = 6, .lr = 0.05});
  const double first = setting.trainer.train(kSharing, kGoOn)[0];
  CHECK(first == other.trainer.train(kDisjoint, kGoOn)[0]);
}

TEST_CASE("fitness is the share of right answers while training, and grows") {
  Setting setting({.batches = 10, .lr = 0.05});
  const std::vector<double> first = setting.trainer.train(kDisjoint, kGoOn);
  for (const double fitness : first) {
    CHECK(fitness >= 0);
    CHECK(fitness <= 1);
    CHECK(std::round(fitness * 80) == doctest::Approx(fitness * 80));  // 10 batches of 8
  }
  std::vector<double> last;
  for (int i = 0; i < 10; ++i) last = setting.trainer.train(kDisjoint, kGoOn);
  CHECK(last[0] > 0.9);
  CHECK(last[1] > 0.9);
}

TEST_CASE("training leaves frozen modules as they are, bit by bit") {
  for (const Form form : {Form::linear, Form::conv}) {
    Setting setting({.batches = 5, .lr = 0.05}, form);
    setting.net.freeze(kSharing[0]);
    const auto before = setting.tensors();
    setting.trainer.train(kSharing, kGoOn);
    const auto changed = differences(before, setting.tensors());
    CHECK(std::ranges::count_if(changed, [](const std::string& name) { return name.starts_with("layer0.4."); }) ==
          (form == Form::linear ? 2 : 5));
    for (const char* frozen : {"layer0.0.", "layer0.1.", "layer1.0.", "layer1.2."}) {
      CAPTURE(frozen);
      CHECK(std::ranges::none_of(changed, [&](const std::string& name) { return name.starts_with(frozen); }));
    }
  }
}

TEST_CASE("training stops on request and gives no fitness") {
  Setting setting({.batches = 5, .lr = 0.05});
  int steps = 0;
  CHECK(setting.trainer.train(kDisjoint, [&] { return ++steps == 3; }).empty());
  CHECK(setting.session.stats().steps == 2);
}

TEST_CASE("training that diverges, a wrong number of candidates and too little data are errors") {
  Setting setting({.batches = 50, .lr = 1e30});
  CHECK_THROWS_WITH_AS(setting.trainer.train(kDisjoint, kGoOn), doctest::Contains("training has diverged"), Error);
  CHECK_THROWS_WITH_AS(setting.trainer.train(std::span(kDisjoint).first(1), kGoOn),
                       "[pathnet] expected 2 candidates, got 1", Error);
  const auto few = synthetic({.size = 7, .shape = {6, 6, 1}, .classes = 2});
  CHECK_THROWS_WITH_AS(CandidateTrainer(setting.session, setting.net, setting.task, few, {.batch_size = 8}, {}),
                       doctest::Contains("synthetic has 7 samples, too few for a batch of 8"), ConfigError);
}

}  // namespace
}  // namespace braid
