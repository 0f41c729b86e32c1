#include "models/zoo/wired/pathnet.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>

#include "runtime/session.h"
#include "tests/noise.h"

namespace braid::models {
namespace {

using Form = PathNetOptions::Form;

const PathGrid kGrid{.layers = 2, .modules = 4, .active = 2};

PathNetOptions options(Form form) { return {.form = form, .grid = kGrid, .width = 3, .image_shape = {4, 4, 2}}; }

Array images(std::uint64_t seed = 1) { return noise({5, 4, 4, 2}, seed); }

Array labels() { return Array::from<std::int32_t>({0, 2, 1, 2, 0}, {5}); }

bool same(const Array& a, const Array& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

/// Parameters and states by name.
std::map<std::string, Array> tensors(Session& session, const Module& module) {
  std::map<std::string, Array> all;
  for (const auto& list : {module.parameters(), module.states()}) {
    for (const Parameter* parameter : list) all.emplace(parameter->name(), session.read(*parameter));
  }
  return all;
}

/// A net of perceptrons with a task.
struct LinearNet {
  LinearNet() { net.add_task("a", 3); }
  Hash hash_of(const Genotype& path) {
    const Step step = session.step();
    net.forward(images(), path, 0);
    return session.tape().graph().hash();
  }
  Session session{{.device = "cpu", .streams = 2, .intra_op_threads = 1}};
  PathNet net{session, options(Form::linear)};
};

TEST_CASE("a PathNet has the size of its grid, and maps images to the classes of each task") {
  Session session({.device = "cpu", .streams = 1});
  CHECK(PathNet(session, {}).parameter_count() == 10 * (784 * 20 + 20) + 2 * 10 * (20 * 20 + 20));
  for (const Form form : {Form::linear, Form::conv}) {
    PathNet net(session, options(form));
    const int a = net.add_task("a", 3), b = net.add_task("b", 7);
    const Step step = session.step();
    CHECK(net.forward(images(), {{{0, 1}, {2, 3}}}, a).shape() == Shape{5, 3});
    CHECK(net.forward(images(), {{{0, 0}, {3, 3}}}, b).shape() == Shape{5, 7});
  }
}

TEST_CASE("only the modules of the path and the last layer of the task get gradients") {
  for (const Form form : {Form::linear, Form::conv}) {
    Session session({.device = "cpu", .streams = 1});
    PathNet net(session, options(form));
    net.add_task("a", 3);
    const int b = net.add_task("b", 3);
    const Step step = session.step();
    backward(cross_entropy(net.forward(images(), {{{0, 3}, {1, 1}}}, b), labels()));
    for (const Parameter* parameter : net.parameters()) {
      CAPTURE(parameter->name());
      const bool used = parameter->name().starts_with("layer0.0.") || parameter->name().starts_with("layer0.3.") ||
                        parameter->name().starts_with("layer1.1.") || parameter->name().starts_with("b.");
      CHECK((session.tape().gradient(*parameter) != kNoValue) == used);
    }
  }
}

TEST_CASE_FIXTURE(LinearNet, "duplicates and order of a path's genes change no node") {
  const Hash path = hash_of({{{1, 3}, {2, 2}}});
  CHECK(hash_of({{{3, 1}, {2}}}) == path);
  CHECK(hash_of({{{3, 1, 3, 3}, {2, 2, 2, 2}}}) == path);
  CHECK_FALSE(hash_of({{{3, 2}, {2, 2}}}) == path);
}

TEST_CASE_FIXTURE(LinearNet, "the outputs of a layer's modules are added in ascending order") {
  const Step step = session.step();
  net.forward(images(), {{{3, 0}, {2, 1}}}, 0);
  const Tape& tape = session.tape();
  std::vector<std::vector<std::string>> sums;
  for (const Node& node : tape.graph().nodes()) {
    if (node.op->name() != "sum") continue;
    sums.emplace_back();
    for (const ValueId input : tape.graph().inputs(node)) {
      sums.back().emplace_back(tape.layer(tape.graph().value(input).producer));
    }
  }
  CHECK(sums == std::vector<std::vector<std::string>>{{"layer0.0", "layer0.3"}, {"layer1.1", "layer1.2"}});
}

TEST_CASE_FIXTURE(LinearNet,
                  "modules that two paths of a step share get the sum of the gradients, in the order of the paths") {
  const Genotype paths[] = {{{{0, 1}, {2, 2}}}, {{{1, 2}, {3, 3}}}};
  const Parameter& shared = *net.module(0, 1).parameters().front();
  const auto gradient_of = [&](std::initializer_list<int> which) {
    Step step = session.step();
    for (const int i : which) {
      backward(cross_entropy(net.forward(images(static_cast<std::uint64_t>(i)), paths[i], 0), labels()));
    }
    const Tensor gradient = braid::gradient(shared);
    gradient.keep();
    return gradient.array();
  };
  const Array first = gradient_of({0}), second = gradient_of({1}), both = gradient_of({0, 1});
  for (std::size_t i = 0; i < both.as<float>().size(); ++i) {
    CHECK(both.as<float>()[i] == first.as<float>()[i] + second.as<float>()[i]);
  }
}

TEST_CASE("frozen modules pass gradients on and stay as they are, running statistics included") {
  for (const Form form : {Form::linear, Form::conv}) {
    Session session({.device = "cpu", .streams = 1});
    PathNet net(session, options(form));
    net.add_task("a", 3);
    net.freeze({{{0, 1}, {2, 2}}});
    CHECK(net.module(1, 2).frozen());
    CHECK_FALSE(net.module(1, 1).frozen());
    const auto frozen_before = tensors(session, net.module(1, 2)), free_before = tensors(session, net.module(0, 3));
    {
      Step step = session.step();
      backward(cross_entropy(net.forward(images(), {{{0, 3}, {2, 2}}}, 0), labels()));
      CHECK(session.tape().gradient(*net.module(0, 0).parameters().front()) == kNoValue);
      CHECK(session.tape().gradient(*net.module(1, 2).parameters().front()) == kNoValue);
      // Its gradient went through the frozen module of the second layer.
      CHECK(session.tape().gradient(*net.module(0, 3).parameters().front()) != kNoValue);
      step.run();
    }
    for (const auto& [name, array] : tensors(session, net.module(1, 2))) CHECK(same(array, frozen_before.at(name)));
    int changed = 0;
    for (const auto& [name, array] : tensors(session, net.module(0, 3)))
      changed += same(array, free_before.at(name)) ? 0 : 1;
    CHECK(changed == (form == Form::conv ? 2 : 0));  // its running statistics; no update of its parameters
  }
}

TEST_CASE(
    "re-initialised modules are those of a new net in the random state in force; frozen ones keep their weights") {
  Session session({.device = "cpu", .streams = 1});
  PathNet net(session, options(Form::conv));
  const auto before = tensors(session, net);
  net.freeze({{{0, 0}, {3, 3}}});
  RandomState other{.seed = 99};
  const Context::RandomScope random(session, other);
  net.reinitialise();
  const PathNet fresh(session, options(Form::conv));
  const auto expected = tensors(session, fresh);
  for (const auto& [name, array] : tensors(session, net)) {
    CAPTURE(name);
    const bool frozen = name.starts_with("layer0.0.") || name.starts_with("layer1.3.");
    CHECK(same(array, frozen ? before.at(name) : expected.at(name)));
    if (name.ends_with("conv.weight")) CHECK_FALSE(same(before.at(name), expected.at(name)));
  }
}

TEST_CASE_FIXTURE(LinearNet, "a path that is kept active is a part of every path") {
  const Hash both = hash_of({{{0, 1, 2}, {1, 3}}});
  net.keep_active({{{1, 2}, {3, 3}}});
  CHECK(hash_of({{{0, 1}, {1, 1}}}) == both);
}

TEST_CASE("a net of one path has no other modules") {
  Session session({.device = "cpu", .streams = 1});
  const Genotype path{{{0, 2}, {1, 1}}};
  PathNet net(session, options(Form::linear), path);
  net.add_task("a", 3);
  CHECK(net.parameters().size() == 2 * (3 + 1));
  const Step step = session.step();
  CHECK(net(images()).shape() == Shape{5, 3});
  CHECK_THROWS_WITH_AS(net.forward(images(), {{{0, 1}, {1, 1}}}, 0),
                       "[pathnet] module 1 of layer 0 is not there: the net was made for another path", Error);
}

TEST_CASE("paths, tasks and options that do not fit are refused") {
  Session session({.device = "cpu", .streams = 1});
  PathNet net(session, options(Form::linear));
  const Step step = session.step();
  CHECK_THROWS_WITH_AS(net.forward(images(), {{{0}, {0}}}, 0), "[pathnet] there is no task 0: there are 0", Error);
  net.add_task("a", 3);
  CHECK_THROWS_WITH_AS(net.forward(images(), {{{0}}}, 0), "[pathnet] expected a path of 2 layers, got 1", Error);
  CHECK_THROWS_WITH_AS(net.forward(images(), {{{0}, {}}}, 0), "[pathnet] the path has no module in layer 1", Error);
  CHECK_THROWS_WITH_AS(net.forward(images(), {{{0}, {4}}}, 0),
                       "[pathnet] the path uses module 4 of layer 1, expected 0 to 3", Error);
  CHECK_THROWS_AS(net.freeze({{{-1}, {0}}}), Error);
  CHECK_THROWS_AS(PathNet(session, {.grid = {.layers = 0}}), Error);
  CHECK_THROWS_WITH_AS(PathNet(session, {.form = Form::conv, .grid = {.layers = 4}, .image_shape = {7, 8, 1}}),
                       doctest::Contains("leave nothing of images of shape [7,8,1]"), Error);
}

}  // namespace
}  // namespace braid::models
