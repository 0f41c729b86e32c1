#include "models/zoo/wired/random_graph.h"

#include <algorithm>

#include "core/base/error.h"

namespace braid::models {

namespace {

/// adjacent[a][b]: whether there is an edge between a and b.
using Adjacency = std::vector<std::vector<bool>>;

void set_edge(Adjacency& adjacent, int a, int b, bool on) {
  adjacent[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] = on;
  adjacent[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)] = on;
}

bool has_edge(const Adjacency& adjacent, int a, int b) {
  return adjacent[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
}

/// Nodes that an edge of v may lead to instead: not v, and no edge twice.
std::vector<int> new_ends(const Adjacency& adjacent, int v) {
  std::vector<int> ends;
  for (int w = 0; w < static_cast<int>(adjacent.size()); ++w) {
    if (w != v && !has_edge(adjacent, v, w)) ends.push_back(w);
  }
  return ends;
}

Adjacency draw(int nodes, int neighbours, double probability, Generator& generator) {
  const auto n = static_cast<std::size_t>(nodes);
  Adjacency adjacent(n, std::vector<bool>(n, false));
  for (int distance = 1; distance <= neighbours / 2; ++distance) {
    for (int v = 0; v < nodes; ++v) set_edge(adjacent, v, (v + distance) % nodes, true);
  }
  for (int distance = 1; distance <= neighbours / 2; ++distance) {
    for (int v = 0; v < nodes; ++v) {
      if (static_cast<double>(generator.uniform()) >= probability) continue;
      const std::vector<int> ends = new_ends(adjacent, v);
      if (ends.empty()) continue;
      set_edge(adjacent, v, (v + distance) % nodes, false);
      set_edge(adjacent, v, ends[generator.below(static_cast<std::uint32_t>(ends.size()))], true);
    }
  }
  return adjacent;
}

bool connected(const Adjacency& adjacent) {
  const int nodes = static_cast<int>(adjacent.size());
  std::vector<int> reached{0};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (int w = 0; w < nodes; ++w) {
      if (has_edge(adjacent, reached[i], w) && std::ranges::count(reached, w) == 0) reached.push_back(w);
    }
  }
  return reached.size() == adjacent.size();
}

}  // namespace

std::vector<int> RandomGraph::outputs() const {
  std::vector<bool> read(inputs.size(), false);
  for (const std::vector<int>& sources : inputs) {
    for (const int source : sources) read[static_cast<std::size_t>(source)] = true;
  }
  std::vector<int> list;
  for (int v = 0; v < nodes(); ++v) {
    if (!read[static_cast<std::size_t>(v)]) list.push_back(v);
  }
  return list;
}

RandomGraph watts_strogatz(int nodes, int neighbours, double probability, Generator generator) {
  BRAID_CHECK(neighbours >= 2 && neighbours % 2 == 0 && neighbours < nodes, Error,
              "[watts_strogatz] expected an even number of neighbours from 2 to below ", nodes, ", got ", neighbours);
  Adjacency adjacent = draw(nodes, neighbours, probability, generator);
  while (!connected(adjacent)) adjacent = draw(nodes, neighbours, probability, generator);
  RandomGraph graph;
  for (int v = 0; v < nodes; ++v) {
    std::vector<int>& sources = graph.inputs.emplace_back();
    for (int w = 0; w < v; ++w) {
      if (has_edge(adjacent, v, w)) sources.push_back(w);
    }
  }
  return graph;
}

}  // namespace braid::models
