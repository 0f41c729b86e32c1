#pragma once
// A path through a PathNet as evolution uses it: a table of integers (Fernando et al., 2017, section 2.2).

#include <string>
#include <vector>

#include "core/base/random.h"

namespace braid::models {

/// The grid that paths run through.
struct PathGrid {
  int layers = 3;    ///< L
  int modules = 10;  ///< M: modules of a layer
  int active = 3;    ///< N: a path uses at most this many modules of a layer
  friend bool operator==(const PathGrid&, const PathGrid&) = default;
};

/// L layers of N numbers of modules, from 0 to M - 1. Repeated numbers count once, so a path may use fewer than N
/// modules of a layer.
struct Genotype {
  std::vector<std::vector<int>> layers;

  /// The modules that the path uses in a layer, in ascending order, each once.
  std::vector<int> modules(int layer) const;
  friend bool operator==(const Genotype&, const Genotype&) = default;
};

/// Every number drawn uniformly, independent of the others.
Genotype random_genotype(const PathGrid& grid, Generator& random);

/// Each number changes with probability 1/(L·N), by an integer drawn uniformly from -2 to 2; modules are neighbours in
/// a ring, so the last one's upper neighbour is module 0.
void mutate(Genotype& genotype, const PathGrid& grid, Generator& random);

/// The path that uses the modules of both.
Genotype join(const Genotype& a, const Genotype& b);
/// How many modules both paths use.
int shared_modules(const Genotype& a, const Genotype& b);

/// The modules it uses, as "0 3 7 | 1 2 | 5".
std::string to_string(const Genotype& genotype);

}  // namespace braid::models
