// Configs with a list of jobs.

#include <doctest/doctest.h>

#include "tests/train/single_job.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// Two jobs on the same data; the second one has its own optimizer and learning rate.
const std::string kTwoJobs =
    "name: both\n"
    "seed: 7\n"
    "streams: 2\n"
    "data: {name: fashion_mnist, augment: {flip: true}}\n"
    "train: {epochs: 2, batch_size: 32}\n"
    "optimizer: {name: sgd, lr: 0.2, momentum: 0.8}\n"
    "jobs:\n"
    "  - name: small\n"
    "    model: {name: lenet5}\n"
    "    train: {batch_size: 16}\n"
    "    steps_per_round: 3\n"
    "  - name: large\n"
    "    seed: 9\n"
    "    model: {name: resnet20}\n"
    "    optimizer: {name: adam, lr: 0.01}\n";

RunConfig parse_jobs(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return read_run_config(parse_config(text, "x.yaml"), overrides);
}

/// The error of the two jobs and one more line at the end.
std::string error_of_jobs_with(const std::string& line) { return error_in(kTwoJobs + line + '\n'); }

}  // namespace

TEST_CASE("jobs share the sections next to them, and their own keys take precedence") {
  const RunConfig run = parse_jobs(kTwoJobs);
  CHECK(run.together);
  CHECK(run.name == "both");
  REQUIRE(run.jobs.size() == 2);
  const TrainConfig &small = run.jobs[0].training, &large = run.jobs[1].training;
  CHECK(small.name == "small");
  CHECK(small.session.seed == 7);
  CHECK(large.session.seed == 9);
  CHECK(small.session.streams == 2);
  CHECK(large.session.streams == 2);
  CHECK(small.epochs == 2);
  CHECK(small.batch_size == 16);
  CHECK(large.batch_size == 32);
  CHECK(small.data.augment.flip);
  CHECK(large.data.augment.flip);
  CHECK(small.optimizer.momentum == 0.8);
  CHECK(large.optimizer.name == "adam");
  CHECK(run.jobs[0].steps_per_round == 3);
  CHECK(run.jobs[1].steps_per_round == 0);
  CHECK(parse_jobs(kTwoJobs + "balance: none").jobs[1].steps_per_round == 1);
}

TEST_CASE("jobs may have different precisions, but f32 is the same for all") {
  const RunConfig run = parse_jobs(kTwoJobs, {"precision=bf16", "jobs.large.precision=f16"});
  CHECK(run.jobs[0].training.dtype == DType::bf16);
  CHECK(run.jobs[1].training.dtype == DType::f16);
  const RunConfig tf32 = parse_jobs(kTwoJobs, {"precision=tf32", "jobs.large.precision=bf16"});
  CHECK(tf32.jobs[0].training.dtype == DType::f32);
  CHECK(tf32.jobs[0].training.session.tf32 == true);
  CHECK(tf32.jobs[1].training.dtype == DType::bf16);
  for (const RunConfig& config : {run, tf32, parse_jobs(kTwoJobs, {"balance=none"})}) {
    CHECK(to_yaml(parse_jobs(to_yaml(config))) == to_yaml(config));
    for (const JobConfig& job : config.jobs) CHECK(to_yaml(parse_jobs(to_yaml(job.training))) == to_yaml(job.training));
  }
  const std::string mixed = ": all f32 jobs share one setting: set auto, f32 or tf32 next to the list of jobs";
  CHECK(error_in(kTwoJobs, {"jobs.large.precision=tf32"}) == "--set jobs.large.precision=tf32" + mixed);
  CHECK(error_in(kTwoJobs, {"precision=tf32", "jobs.large.precision=f32"}) == "--set jobs.large.precision=f32" + mixed);
  CHECK(error_of_jobs_with("  - {name: c, model: {name: lenet5}, deterministic: true}") ==
        "x.yaml:16:38: jobs.c.deterministic: is shared by all jobs: it belongs next to the list of jobs");
}

TEST_CASE("overrides reach jobs by name and by index, or all of them at once") {
  CHECK(parse_jobs(kTwoJobs, {"jobs.large.train.epochs=5"}).jobs[1].training.epochs == 5);
  CHECK(parse_jobs(kTwoJobs, {"jobs.large.train.epochs=5"}).jobs[0].training.epochs == 2);
  CHECK(parse_jobs(kTwoJobs, {"jobs.1.train.epochs=5"}).jobs[1].training.epochs == 5);
  const RunConfig both = parse_jobs(kTwoJobs, {"train.max_steps=4"});
  CHECK(both.jobs[0].training.max_steps == 4);
  CHECK(both.jobs[1].training.max_steps == 4);
  CHECK(
      error_in(kTwoJobs, {"jobs.medium.train.epochs=5"}) ==
      "--set jobs.medium.train.epochs=5: the list at x.yaml:8:3 has no item 'medium': expected the name of one of its "
      "items, or its index from 0");
  CHECK(error_in(kTwoJobs, {"jobs.large.train.epochs=0"}) ==
        "--set jobs.large.train.epochs=0: expected an integer in [1, 1000000000], got '0'");
}

TEST_CASE("mistakes in jobs say which job and where") {
  const std::string unknown = error_of_jobs_with("  - {name: third, model: {name: lenet6}}");
  CHECK(unknown.starts_with("x.yaml:16:33: jobs.third.model.name: expected one of "));
  CHECK(unknown.ends_with("got 'lenet6' (did you mean 'lenet5'?)"));
  CHECK(error_of_jobs_with("  - {model: {name: lenet5}}") == "x.yaml:16:5: jobs.2.name: this key is required");
  CHECK(error_of_jobs_with("  - {name: small, model: {name: lenet5}}") ==
        "x.yaml:16:12: jobs.small.name: another job already has this name");
  CHECK(error_of_jobs_with("  - {name: a/b, model: {name: lenet5}}")
            .starts_with("x.yaml:16:12: jobs.a/b.name: expected at most 100 letters, "));
  CHECK(error_of_jobs_with("  - lenet5") == "x.yaml:16:5: jobs.2: expected a section, got 'lenet5'");
  CHECK(error_of_jobs_with("  - {name: c, model: {name: lenet5}, steps_per_round: 0}") ==
        "x.yaml:16:55: jobs.c.steps_per_round: expected 'auto' or an integer in [1, 64], got '0'");
  CHECK(error_of_jobs_with("  - {name: c, model: {name: lenet5}, steps_per_turn: 1}") ==
        "x.yaml:16:38: jobs.c.steps_per_turn: unknown key (it is now called 'steps_per_round')");
  CHECK(error_of_jobs_with("  - {name: c, model: {name: lenet5}, device: cpu}") ==
        "x.yaml:16:38: jobs.c.device: is shared by all jobs: it belongs next to the list of jobs");
  CHECK(error_of_jobs_with("balance: equal") == "x.yaml:16:10: balance: expected one of auto, none, got 'equal'");
  CHECK(error_in("name: x\njobs: []\n") == "x.yaml:2:7: jobs: expected a list of sections, got an empty list");
  CHECK(error_in("name: x\njobs: {name: a}\n") == "x.yaml:2:7: jobs: expected a list of sections, got a map");
  CHECK(error_in("name: x\nmodel: {name: lenet5}\ndata: {name: synthetic}\ntrain: {epochs: 1}\nbalance: auto\n") ==
        "x.yaml:5:1: balance: has no meaning without a list of jobs");
}

TEST_CASE("a shared key that no job uses is an error") {
  CHECK(error_in(kTwoJobs + "  - {name: c, model: {name: lenet5}}\n", {"jobs.0.eval.batch_size=8"}).empty());
  const std::string own =
      "name: both\n"
      "train: {epochs: 2, batch_size: 32}\n"
      "jobs:\n"
      "  - {name: a, model: {name: lenet5}, data: {name: synthetic}, train: {epochs: 1}}\n"
      "  - {name: b, model: {name: lenet5}, data: {name: synthetic}, train: {epochs: 1}}\n";
  CHECK(error_in(own) == "x.yaml:2:9: train.epochs: has no effect, because every job has its own");
}
