#pragma once
// Tournament selection over paths (Fernando et al., 2017, section 2.2). It is independent of training: a callback
// returns the fitness of the candidates.

#include <functional>
#include <span>

#include "models/zoo/wired/genotype.h"

namespace braid {

struct EvolutionOptions {
  models::PathGrid grid = {};
  int population = 64;
  /// Genotypes of one generation's tournaments, an even number: neighbours compete, so 4 make two binary tournaments.
  int candidates = 2;
  std::uint64_t seed = 1;
};

class Evolution {
 public:
  /// Fitness of each candidate, larger is better. The candidates are distinct individuals; their genotypes may be
  /// equal.
  using Judge = std::function<std::vector<double>(std::span<const models::Genotype> candidates)>;

  /// Draws the population at random. Throws Error if an option is out of range.
  explicit Evolution(const EvolutionOptions& options);

  /// One generation: draws candidates at random, calls the judge, and overwrites the loser of every pair with a mutated
  /// copy of the winner. A tie goes to the first of the two. If the judge throws, or returns nothing because it was
  /// stopped, the population does not change.
  void step(const Judge& judge);

  struct Winner {
    models::Genotype genotype;
    double fitness = 0;
    int generation = 0;  ///< in which it won, from 1; 0: none yet
  };
  /// The fittest candidate of the last generation, and of all generations so far (the last one on a tie).
  const Winner& last() const { return last_; }
  const Winner& best() const { return best_; }
  std::span<const models::Genotype> population() const { return population_; }

  /// What the next generations depend on, in addition to the options.
  struct State {
    std::vector<models::Genotype> population;
    Winner last, best;
    std::uint64_t drawn = 0;  ///< random numbers
  };
  State state() const { return {population_, last_, best_, random_.position()}; }
  /// Continues from this state, of an evolution with the same options.
  void restore(State state);

 private:
  std::vector<int> draw_candidates();

  EvolutionOptions options_;
  Generator random_;
  std::vector<models::Genotype> population_;
  Winner last_, best_;
};

}  // namespace braid
