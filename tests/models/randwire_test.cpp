#include "models/zoo/wired/randwire.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "runtime/session.h"
#include "tests/models/small_model.h"

namespace braid {
namespace {

using models::RandomGraph;

int edges(const RandomGraph& graph) {
  std::size_t count = 0;
  for (const std::vector<int>& inputs : graph.inputs) count += inputs.size();
  return static_cast<int>(count);
}

TEST_CASE("a Watts-Strogatz graph is acyclic, without double edges, and keeps the ring's number of edges") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const RandomGraph graph = models::watts_strogatz(32, 4, 0.75, Generator(seed));
    REQUIRE(graph.nodes() == 32);
    CHECK(edges(graph) == 32 * 4 / 2);
    for (int v = 0; v < graph.nodes(); ++v) {
      const std::vector<int>& inputs = graph.inputs[static_cast<std::size_t>(v)];
      CHECK(std::is_sorted(inputs.begin(), inputs.end()));
      CHECK(std::set<int>(inputs.begin(), inputs.end()).size() == inputs.size());
      for (const int source : inputs) CHECK(source < v);  // so there is no cycle
    }
  }
}

TEST_CASE("a Watts-Strogatz graph is connected, and its outputs are the nodes without a reader") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    // Two neighbours and much rewiring: without drawing again, most of these graphs would fall apart.
    const RandomGraph graph = models::watts_strogatz(32, 2, 0.75, Generator(seed));
    std::vector<int> piece(32);
    for (int v = 0; v < 32; ++v) piece[static_cast<std::size_t>(v)] = v;
    std::set<int> unread;
    for (int v = 0; v < 32; ++v) unread.insert(v);
    for (int v = 0; v < 32; ++v) {
      for (const int source : graph.inputs[static_cast<std::size_t>(v)]) {
        unread.erase(source);
        const int from = piece[static_cast<std::size_t>(v)], to = piece[static_cast<std::size_t>(source)];
        std::replace(piece.begin(), piece.end(), from, to);
      }
    }
    CHECK(std::count(piece.begin(), piece.end(), piece[0]) == 32);
    const std::vector<int> outputs = graph.outputs();
    CHECK(std::set<int>(outputs.begin(), outputs.end()) == unread);
  }
}

TEST_CASE("without rewiring, a Watts-Strogatz graph is the ring") {
  const RandomGraph graph = models::watts_strogatz(6, 2, 0, Generator(1));
  CHECK(graph.inputs == std::vector<std::vector<int>>{{}, {0}, {1}, {2}, {3}, {0, 4}});
  CHECK(graph.outputs() == std::vector<int>{5});
  CHECK_THROWS_AS(models::watts_strogatz(6, 3, 0.5, Generator(1)), Error);
  CHECK_THROWS_AS(models::watts_strogatz(4, 4, 0.5, Generator(1)), Error);
}

TEST_CASE("the same graph seed gives the same network, another seed another one") {
  const auto graph = [](std::uint64_t seed, int stage) { return models::randwire_graph(seed, stage).inputs; };
  CHECK(graph(1, 0) == graph(1, 0));
  CHECK(graph(1, 0) != graph(2, 0));
  CHECK(graph(1, 0) != graph(1, 1));
  const auto gates = [](std::uint64_t seed) {
    Context context(make_backend(Device{}), 1);
    models::ModelOptions options = small_model({32, 32, 3});
    options.graph_seed = seed;
    const auto model = models::make_model("randwire", context, options);
    std::vector<Shape> shapes;
    for (const Parameter* parameter : model->parameters()) shapes.push_back(parameter->shape());
    return shapes;
  };
  CHECK(gates(7) == gates(7));
  CHECK(gates(7) != gates(8));
}

TEST_CASE("RandWire has the parameters of the paper's small regime") {
  // 5.6 ± 0.1 M for WS(4, 0.75) in table 2. A node i → o has a depthwise filter, a pointwise one, and a normalisation.
  const auto node = [](std::int64_t in, std::int64_t out) { return 9 * in + in * out + 2 * out; };
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::int64_t expected = 9 * 3 * 39 + 2 * 39 + 9 * 39 * 78 + 2 * 78;  // stem
    std::int64_t in = 78, out = 78;
    for (int stage = 0; stage < 3; ++stage, in = out, out *= 2) {
      for (const std::vector<int>& inputs : models::randwire_graph(seed, stage).inputs) {
        expected += node(inputs.empty() ? in : out, out);
        if (inputs.size() > 1) expected += static_cast<std::int64_t>(inputs.size());  // gates
      }
    }
    expected += 312 * 1280 + 2 * 1280 + 1280 * 1000 + 1000;  // classifier
    Context context(make_backend(Device{}), 1);
    const auto model =
        models::make_model("randwire", context, {.classes = 1000, .image_shape = {224, 224, 3}, .graph_seed = seed});
    CHECK(model->parameter_count() == expected);
    CHECK(std::abs(model->parameter_count() - 5600000) < 200000);
  }
}

TEST_CASE("a stage of RandWire ends at an eighth of a small image and a thirty-second of a large one") {
  for (const auto& [stem, side, last] : {std::tuple{"small_image", 32, 4}, std::tuple{"image", 224, 7}}) {
    Session session({.device = "cpu", .streams = 1});
    models::ModelOptions options = small_model({side, side, 3});
    options.stem = stem;
    const auto model = models::make_model("randwire", session, options);
    Step step = session.step();
    (*model)(Array(DType::f32, {1, side, side, 3}));
    const StepGraph& graph = session.tape().graph();
    int pools = 0;
    for (NodeId id = 0; id < graph.node_count(); ++id) {
      if (graph.node(id).op->name() != "global_avg_pool") continue;
      ++pools;
      CHECK(graph.value(graph.inputs(id)[0]).desc.shape[1] == last);
    }
    CHECK(pools == 1);
  }
}

}  // namespace
}  // namespace braid
