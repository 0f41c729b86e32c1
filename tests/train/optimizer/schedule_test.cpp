#include "train/schedule.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/base/error.h"

using namespace braid;

namespace {

std::vector<double> rates(const ScheduleOptions& options, double lr, std::int64_t steps_per_epoch, std::int64_t total) {
  const LearningRate schedule(options, lr, steps_per_epoch, total);
  std::vector<double> list;
  for (std::int64_t step = 0; step < total; ++step) list.push_back(schedule.at(step));
  return list;
}

void check_close(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("a constant rate is constant") { check_close(rates({}, 0.5, 2, 4), {0.5, 0.5, 0.5, 0.5}); }

TEST_CASE("warm-up rises linearly to the full rate and then hands over") {
  check_close(rates({.warmup_epochs = 2}, 0.8, 2, 6), {0.2, 0.4, 0.6, 0.8, 0.8, 0.8});
  // Half an epoch of four steps, then the cosine over the remaining four of six: 1, (1 + cos 45°)/2, 1/2, …
  check_close(rates({.name = "cosine", .warmup_epochs = 0.5}, 1, 4, 6),
              {0.5, 1, 1, 0.8535533905932737, 0.5, 0.14644660940672627});
}

TEST_CASE("steps fall at the milestones") {
  check_close(rates({.name = "step", .milestones = {1, 2.5}, .gamma = 0.1}, 1, 2, 6), {1, 1, 0.1, 0.1, 0.1, 0.01});
  check_close(rates({.name = "step", .step_epochs = 1, .gamma = 0.5}, 1, 2, 6), {1, 1, 0.5, 0.5, 0.25, 0.25});
}

TEST_CASE("a cosine starts at the rate and approaches the minimum") {
  check_close(rates({.name = "cosine", .min_lr = 0.2}, 1, 4, 4),
              {1, 0.2 + 0.8 * 0.8535533905932737, 0.6, 0.2 + 0.8 * 0.14644660940672627});
}

TEST_CASE("one_cycle gives the values of torch.optim.lr_scheduler.OneCycleLR") {
  // OneCycleLR(max_lr=1, total_steps=10, pct_start=0.3, div_factor=25, final_div_factor=1e4): up over 2 steps from 0.04
  // to 1, down over 7 steps to 4e-6.
  const std::vector<double> got = rates({.name = "one_cycle"}, 1, 5, 10);
  check_close(got, {0.04, 0.52, 1.0, 0.9504846320134737, 0.8117456539497631, 0.6112620219362893, 0.3887419780637107,
                    0.1882583460502369, 0.04951936798652638, 4e-06});
}

TEST_CASE("one_cycle with extreme shares stays between its ends") {
  for (const double share : {0.0, 0.05, 1.0}) {
    for (const std::int64_t total : {1, 2, 7}) {
      for (const double rate : rates({.name = "one_cycle", .pct_start = share}, 0.5, 3, total)) {
        CHECK(rate > 0);
        CHECK(rate <= 0.5);
      }
    }
  }
}

TEST_CASE("an unknown schedule is an error") {
  CHECK_THROWS_AS(LearningRate({.name = "linear"}, 1, 1, 1), ConfigError);
}

TEST_CASE("a plateau lowers the rate after more than `patience` validations in a row that were not the best") {
  LearningRate schedule({.name = "plateau", .gamma = 0.5, .min_lr = 0.2, .patience = 1}, 1, 10, 100);
  const bool best[] = {true, false, false, false, true, false, false, false, false};
  // As torch.optim.lr_scheduler.ReduceLROnPlateau(factor=0.5, patience=1, threshold=0, min_lr=0.2).
  const double rates[] = {1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.2};
  for (std::size_t i = 0; i < std::size(best); ++i) {
    CAPTURE(i);
    schedule.note_validation(best[i]);
    CHECK(schedule.at(0) == rates[i]);
    CHECK(schedule.at(99) == rates[i]);
  }
}
