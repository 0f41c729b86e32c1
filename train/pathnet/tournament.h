#pragma once
// Trains and thereby judges the candidates of a PathNet tournament: the fitness of a path is its accuracy on the
// mini-batches that it trains on (Fernando et al., 2017, section 2.2).

#include <deque>
#include <functional>

#include "data/loader/loader.h"
#include "models/zoo/wired/pathnet.h"
#include "runtime/session.h"
#include "train/config/pathnet_config.h"
#include "train/loss_scale.h"
#include "train/optimizer.h"

namespace braid {

/// Differences between the two orders. The batches are the same: every place in the tournament has its own loader. In
/// concurrent order, modules that candidates share, and the task's last layer, which all share, get one update per step
/// by the sum of the candidates' gradients, added in the candidates' order. In sequential order the candidates update
/// them one after another, so the later ones start from what the earlier ones learned. Candidates that share nothing
/// would train equally in both orders. In both, the candidates update one after another the running statistics of a
/// shared batch norm.
class CandidateTrainer {
 public:
  /// `loader` holds the options of each candidate's loader, except the seed. Throws ConfigError if the dataset does not
  /// have a complete batch.
  CandidateTrainer(Session& session, models::PathNet& net, int task, const std::shared_ptr<const ImageDataset>& dataset,
                   const LoaderOptions& loader, const TournamentOptions& options);

  /// Trains the candidates and returns their fitness, in [0,1]; nothing if `stop` returned true. Throws Error if a loss
  /// is no longer finite.
  std::vector<double> train(std::span<const models::Genotype> candidates, const std::function<bool()>& stop);

  /// The next batch of a candidate.
  struct Position {
    std::int64_t epoch = 0, batch = 0;  ///< counted from 0
  };
  std::vector<Position> positions() const;
  /// Continues with these batches, one for each candidate. Throws Error if there are no such batches.
  void seek(std::span<const Position> positions);
  /// What training changes in addition to the net.
  std::span<Parameter* const> states() const;

 private:
  /// An endless sequence of batches: epoch after epoch.
  struct Batches {
    Batches(const std::shared_ptr<const ImageDataset>& dataset, const LoaderOptions& options);
    void advance();
    void seek(const Position& next);

    Loader loader;
    Batch current;
    Position position = {};  // position of the current batch
  };

  /// Trains `count` candidates, starting with number `first`, in the same steps.
  bool train_together(std::span<const models::Genotype> candidates, std::size_t first, std::vector<double>& fitness,
                      const std::function<bool()>& stop);

  Session& session_;
  models::PathNet& net_;
  int task_;
  TournamentOptions options_;
  SGD sgd_;
  std::unique_ptr<LossScale> loss_scale_;  // null without loss scaling
  std::deque<Batches> batches_;            // one per candidate
};

}  // namespace braid
