#include "train/pathnet/tournament.h"

#include <cmath>

#include "core/text/text.h"
#include "core/text/text_table.h"
#include "train/run/factories.h"

namespace braid {

using models::Genotype;

CandidateTrainer::Batches::Batches(const std::shared_ptr<const ImageDataset>& dataset, const LoaderOptions& options)
    : loader(dataset, options) {
  BRAID_CHECK(loader.batches() > 0, ConfigError, "[pathnet] ", dataset->name(), " has ", dataset->size(),
              " samples, too few for a batch of ", options.batch_size);
  seek(position);
}

void CandidateTrainer::Batches::advance() {
  ++position.batch;
  if (!loader.next(current)) seek({.epoch = position.epoch + 1});
}

void CandidateTrainer::Batches::seek(const Position& next) {
  BRAID_CHECK(next.batch < loader.batches(), Error, "[pathnet] an epoch has ", plural(loader.batches(), "batch", "es"),
              ": there is none after ", next.batch);
  position = next;
  loader.start_epoch(next.epoch, next.batch);
  loader.next(current);
}

CandidateTrainer::CandidateTrainer(Session& session, models::PathNet& net, int task,
                                   const std::shared_ptr<const ImageDataset>& dataset, const LoaderOptions& loader,
                                   const TournamentOptions& options)
    : session_(session),
      net_(net),
      task_(task),
      options_(options),
      sgd_(net.parameters(), {.lr = options.lr}),
      loss_scale_(make_loss_scale(options.dtype, session)) {
  for (int i = 0; i < options.candidates; ++i) {
    LoaderOptions own = loader;
    own.shuffle = own.drop_last = true;
    own.seed = mix_bits(loader.seed + static_cast<std::uint64_t>(i));
    batches_.emplace_back(dataset, own);
  }
}

std::vector<double> CandidateTrainer::train(std::span<const Genotype> candidates, const std::function<bool()>& stop) {
  BRAID_CHECK(candidates.size() == batches_.size(), Error, "[pathnet] expected ", batches_.size(), " candidates, got ",
              candidates.size());
  std::vector<double> fitness(candidates.size());
  const std::size_t together = options_.order == Tournament::concurrent ? candidates.size() : 1;
  for (std::size_t first = 0; first < candidates.size(); first += together) {
    if (!train_together(candidates.subspan(first, together), first, fitness, stop)) return {};
  }
  for (double& value : fitness) value /= options_.batches;
  return fitness;
}

std::vector<CandidateTrainer::Position> CandidateTrainer::positions() const {
  std::vector<Position> list;
  for (const Batches& batches : batches_) list.push_back(batches.position);
  return list;
}

void CandidateTrainer::seek(std::span<const Position> positions) {
  for (std::size_t i = 0; i < positions.size(); ++i) batches_[i].seek(positions[i]);
}

std::span<Parameter* const> CandidateTrainer::states() const {
  return loss_scale_ == nullptr ? std::span<Parameter* const>{} : loss_scale_->states();
}

bool CandidateTrainer::train_together(std::span<const Genotype> candidates, std::size_t first,
                                      std::vector<double>& fitness, const std::function<bool()>& stop) {
  struct Result {
    Fetched loss, accuracy;
  };
  std::vector<Result> last;  // results of the last step, read once the next one is running
  const auto add = [&] {
    for (std::size_t i = 0; i < last.size(); ++i) {
      const double loss = unsigned_nan(last[i].loss.item());
      BRAID_CHECK(std::isfinite(loss), Error, "[pathnet] the loss of the path ", to_string(candidates[i]), " is ", loss,
                  ": training has diverged. A smaller optimizer.lr may help");
      fitness[first + i] += last[i].accuracy.item();
    }
  };
  for (int t = 0; t < options_.batches; ++t) {
    if (stop()) return false;
    Step step = session_.step();
    std::vector<Result> results;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Batch& batch = batches_[first + i].current;
      const Tensor logits = net_.forward(cast(batch.images, options_.dtype), candidates[i], task_);
      const Tensor labels = batch.labels;
      const Tensor loss = cross_entropy(logits, batch.targets.size() > 0 ? Tensor(batch.targets) : labels);
      results.push_back({loss.fetch(), accuracy(logits, labels).fetch()});
      backward(loss_scale_ == nullptr ? loss : (*loss_scale_)(loss));
    }
    sgd_.step(loss_scale_.get());
    step.run();
    for (std::size_t i = 0; i < candidates.size(); ++i) batches_[first + i].advance();  // while the step runs
    add();
    last = std::move(results);
  }
  add();
  return true;
}

}  // namespace braid
