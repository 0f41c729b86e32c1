#pragma once
// Trains the candidates of a PathNet tournament, and so judges them: the fitness of a path is its accuracy on the
// mini-batches that it is being trained on (Fernando et al., 2017, section 2.2).

#include <deque>
#include <functional>

#include "data/loader.h"
#include "models/pathnet.h"
#include "runtime/session.h"
#include "train/loss_scale.h"
#include "train/optimizer.h"

namespace braid {

enum class Tournament {
  concurrent,  ///< all candidates in one step, each with a batch of its own; one update follows from all gradients
  sequential,  ///< the paper's order: a candidate begins once the one before it has finished
};

struct TournamentOptions {
  Tournament order = Tournament::concurrent;
  int candidates = 2;
  int batches = 50;  ///< that each candidate is trained on
  double lr = 0.05;
  DType dtype = DType::f32;  ///< that nets compute in: f32, f16 or bf16
};

/// What differs between the two orders. Batches do not: every place in the tournament has a loader of its own. Modules
/// that candidates share, and the task's last layer, which all share, get one update per step by the sum of the
/// candidates' gradients, added in the candidates' order; in sequential order each candidate updates them in turn, so
/// the later ones start from what the earlier ones learned. Candidates that shared nothing would train alike. The
/// running statistics of a batch norm that candidates share are updated by each in turn, in both orders.
class CandidateTrainer {
 public:
  /// `loader` is what each candidate's loader is made with, but for the seed. Throws ConfigError if the dataset does
  /// not have a complete batch.
  CandidateTrainer(Session& session, models::PathNet& net, int task, const std::shared_ptr<const Dataset>& dataset,
                   const LoaderOptions& loader, const TournamentOptions& options);

  /// Trains the candidates and returns their fitness, in [0,1]; nothing if `stop` told to end. Throws Error if a loss
  /// is no longer finite.
  std::vector<double> train(std::span<const models::Genotype> candidates, const std::function<bool()>& stop);

 private:
  /// Batch after batch, epoch after epoch.
  struct Batches {
    Batches(const std::shared_ptr<const Dataset>& dataset, const LoaderOptions& options);
    void advance();

    Loader loader;
    Batch current;
    std::int64_t epoch = 0;
  };

  /// Trains `count` candidates from number `first` on in common steps.
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
