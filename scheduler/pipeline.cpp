#include "scheduler/pipeline.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/text/suggestion.h"

namespace braid::scheduler {

namespace {

constexpr double kNotYet = std::numeric_limits<double>::infinity();

/// Plays a pipeline: every stage runs the next micro-batch of a pass that it chooses, as soon as it can.
class PipelinePlay {
 public:
  PipelinePlay(std::span<const StageTimes> stages, int micro_batches, bool has_backward, bool splits_backward)
      : times_(stages.begin(), stages.end()), micro_batches_(micro_batches), stages_(stages.size()) {
    passes_ = !has_backward ? 1 : splits_backward ? 3 : 2;
    order_.splits_backward = has_backward && splits_backward;
    order_.in_flight.resize(stages.size());
    if (splits_backward) return;
    for (StageTimes& times : times_) times.backward += std::exchange(times.weights, 0);
  }

  std::size_t stages() const { return stages_.size(); }
  /// The micro-batches for which a stage has begun a pass.
  int begun(std::size_t stage, Pass pass) const { return static_cast<int>(finish(stage, pass).size()); }
  /// The micro-batches whose activations a stage holds.
  int in_flight(std::size_t stage) const {
    return passes_ == 1 ? 0 : begun(stage, Pass::forward) - begun(stage, static_cast<Pass>(passes_ - 1));
  }
  /// When a stage can begin the next micro-batch of a pass; kNotYet if that is not known yet.
  double earliest(std::size_t stage, Pass pass) const {
    const auto next = static_cast<std::size_t>(begun(stage, pass));
    if (next == static_cast<std::size_t>(micro_batches_) || static_cast<int>(pass) >= passes_) return kNotYet;
    const auto after = [&](std::size_t other, Pass its, double message) {
      const std::vector<double>& done = finish(other, its);
      return next < done.size() ? done[next] + message : kNotYet;
    };
    double start = stages_[stage].free;
    if (pass == Pass::forward && stage > 0) {
      start = std::max(start, after(stage - 1, pass, times_[stage - 1].message));
    } else if (pass == Pass::backward) {
      start = std::max(start, after(stage, Pass::forward, 0));
      if (stage + 1 < stages_.size()) start = std::max(start, after(stage + 1, pass, times_[stage].message));
    } else if (pass == Pass::weights) {
      start = std::max(start, after(stage, Pass::backward, 0));
    }
    return start;
  }

  /// `choose` returns the pass that a stage runs next; nothing if that depends on tasks to come.
  PipelineOrder run(const std::function<std::optional<Pass>(std::size_t)>& choose) && {
    const std::size_t count = stages_.size() * static_cast<std::size_t>(micro_batches_ * passes_);
    while (order_.tasks.size() < count) {
      std::size_t first = 0;
      Pass pass{};
      double start = kNotYet;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
        if (is_done(stage)) continue;
        const std::optional<Pass> its = choose(stage);
        if (!its.has_value() || earliest(stage, *its) >= start) continue;
        start = earliest(stage, *its), first = stage, pass = *its;
      }
      BRAID_CHECK(start < kNotYet, PlanError, "[pipeline] the stages wait for each other");
      run(first, pass, start);
    }
    return std::move(order_);
  }

 private:
  struct Stage {
    double free = 0;
    std::array<std::vector<double>, 3> finish;  // per pass and micro-batch
  };

  const std::vector<double>& finish(std::size_t stage, Pass pass) const {
    return stages_[stage].finish[static_cast<std::size_t>(pass)];
  }
  bool is_done(std::size_t stage) const { return begun(stage, static_cast<Pass>(passes_ - 1)) == micro_batches_; }

  void run(std::size_t stage, Pass pass, double start) {
    const StageTimes& times = times_[stage];
    const double took = pass == Pass::forward ? times.forward : pass == Pass::backward ? times.backward : times.weights;
    const int micro_batch = begun(stage, pass);
    stages_[stage].free = start + took;
    stages_[stage].finish[static_cast<std::size_t>(pass)].push_back(start + took);
    order_.tasks.push_back({static_cast<int>(stage), micro_batch, pass, start, start + took});
    order_.makespan = std::max(order_.makespan, start + took);
    order_.in_flight[stage] = std::max(order_.in_flight[stage], in_flight(stage));
  }

  std::vector<StageTimes> times_;
  const int micro_batches_;
  int passes_ = 1;
  std::vector<Stage> stages_;
  PipelineOrder order_;
};

/// The passes of a stage, one after another. It begins with `ahead` forward passes; gradients of its weights are
/// `lag` micro-batches late.
std::vector<Pass> sequence(int micro_batches, int ahead, bool splits_backward, int lag) {
  std::vector<Pass> passes(static_cast<std::size_t>(std::min(ahead, micro_batches)), Pass::forward);
  for (int i = 0; i < micro_batches; ++i) {
    passes.push_back(Pass::backward);
    if (splits_backward && i >= lag) passes.push_back(Pass::weights);
    if (i + ahead < micro_batches) passes.push_back(Pass::forward);
  }
  if (splits_backward)
    passes.insert(passes.end(), static_cast<std::size_t>(std::min(lag, micro_batches)), Pass::weights);
  return passes;
}

PipelineOrder fixed_order(std::string_view name, std::span<const StageTimes> stages, int micro_batches) {
  const int count = static_cast<int>(stages.size());
  const bool splits = name == "zb_h1";
  std::vector<std::vector<Pass>> passes;
  for (int stage = 0; stage < count; ++stage) {
    const int ahead = name == "gpipe" ? micro_batches : count - stage;
    passes.push_back(sequence(micro_batches, ahead, splits, stage));
  }
  PipelinePlay play(stages, micro_batches, true, splits);
  return std::move(play).run([&](std::size_t stage) {
    std::size_t done = 0;
    for (const Pass pass : {Pass::forward, Pass::backward, Pass::weights}) {
      done += static_cast<std::size_t>(play.begun(stage, pass));
    }
    return passes[stage][done];
  });
}

/// Every stage runs what it can begin first: backward passes before forward passes, of which it holds at most `most`
/// micro-batches, before gradients of weights.
PipelineOrder list_schedule(std::span<const StageTimes> stages, int micro_batches, bool has_backward, int most) {
  PipelinePlay play(stages, micro_batches, has_backward, true);
  return std::move(play).run([&](std::size_t stage) {
    std::optional<Pass> first;
    double start = kNotYet;
    for (const Pass pass : {Pass::backward, Pass::forward, Pass::weights}) {
      if (pass == Pass::forward && has_backward && play.in_flight(stage) >= most) continue;
      if (const double when = play.earliest(stage, pass); when < start) start = when, first = pass;
    }
    return first;
  });
}

}  // namespace

PipelineOrder pipeline_order(std::string_view name, std::span<const StageTimes> stages, int micro_batches,
                             bool has_backward) {
  BRAID_CHECK(std::ranges::find(kPipelines, name) != kPipelines.end(), Error, "[pipeline] unknown order '", name, "'",
              suggestion(name, kPipelines));
  BRAID_CHECK(!stages.empty() && micro_batches > 0, Error, "[pipeline] expected stages and micro-batches");
  const int count = static_cast<int>(stages.size());
  PipelineOrder best;
  if (!has_backward) {
    best = list_schedule(stages, micro_batches, false, count);
  } else if (name != "auto") {
    best = fixed_order(name, stages, micro_batches);
  } else {
    best = fixed_order("1f1b", stages, micro_batches);
    const auto consider = [&](PipelineOrder other) {
      if (other.makespan < best.makespan) best = std::move(other);
    };
    consider(fixed_order("zb_h1", stages, micro_batches));
    for (int most = (count + 1) / 2; most <= count; ++most) {
      consider(list_schedule(stages, micro_batches, true, most));
    }
  }
  best.name = name;
  return best;
}

std::vector<std::size_t> balanced_stages(std::span<const double> microseconds, std::span<const double> cut,
                                         std::size_t stages) {
  const std::size_t layers = microseconds.size();
  BRAID_CHECK(stages >= 1 && layers >= stages, Error,
              "[pipeline] expected at most as many stages as the model has "
              "layers, ",
              layers, ", got ", stages);
  // longest[k][i]: the longest stage if k + 1 stages have the first i layers. begin[k][i]: where the last begins.
  std::vector<std::vector<double>> longest(stages, std::vector<double>(layers + 1, kNotYet));
  std::vector<std::vector<std::size_t>> begin(stages, std::vector<std::size_t>(layers + 1));
  for (std::size_t k = 0; k < stages; ++k) {
    for (std::size_t end = k + 1; end <= layers; ++end) {
      double time = end < layers ? cut[end] : 0;
      for (std::size_t first = end; first-- > k;) {
        time += microseconds[first];
        if (k == 0 && first > 0) continue;
        const double its = time + (first > 0 ? cut[first] : 0);
        const double all = k == 0 ? its : std::max(its, longest[k - 1][first]);
        if (all < longest[k][end]) longest[k][end] = all, begin[k][end] = first;
      }
    }
  }
  std::vector<std::size_t> begins;
  for (std::size_t k = stages, end = layers; --k > 0;) begins.push_back(end = begin[k][end]);
  std::ranges::reverse(begins);
  return begins;
}

}  // namespace braid::scheduler
