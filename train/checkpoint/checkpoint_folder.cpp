#include "train/checkpoint/checkpoint_folder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/start_thread.h"
#include "train/checkpoint/files.h"

namespace braid {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";

/// The last steps, and those with the best scores.
std::set<std::int64_t> kept(const std::vector<std::int64_t>& newest_first, const std::map<std::int64_t, double>& scores,
                            const CheckpointFolder::Retention& retention) {
  const auto last = std::min<std::ptrdiff_t>(retention.last, std::ssize(newest_first));
  std::set<std::int64_t> steps(newest_first.begin(), newest_first.begin() + last);
  std::vector<std::pair<double, std::int64_t>> best;
  for (const std::int64_t step : newest_first) {
    if (scores.contains(step)) best.emplace_back(scores.at(step), -step);  // among equal scores the earlier one
  }
  std::ranges::sort(best, std::ranges::greater{});
  best.resize(std::min(best.size(), static_cast<std::size_t>(retention.best)));
  for (const auto& [score, negative] : best) steps.insert(-negative);
  return steps;
}

bool is_damaged(const fs::path& path) {
  try {
    static_cast<void>(SafeTensors(path));
    return false;
  } catch (const DataError&) {
    return true;
  }
}

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder, const Retention& retention)
    : folder_(std::move(folder)), retention_(retention) {
  std::error_code error;
  fs::create_directories(folder_, error);
  BRAID_CHECK(!error, Error, folder_.string(), ": cannot make the folder of checkpoints: ", error.message());
  remove_leftovers(folder_);
  // Its name is temporary: what a kill leaves of it must not look like a checkpoint.
  static_cast<void>(AtomicFile(path_of(folder_, 0)));
}

void CheckpointFolder::save(Checkpoint checkpoint, fs::path model_path, Checkpoint model) {
  finish();
  std::packaged_task<void()> writing(
      [=, this, checkpoint = std::move(checkpoint), model = std::move(model), scores = scores_] {
        if (!model_path.empty()) write_safetensors(model_path, model.tensors, model.metadata);
        write_safetensors(path_of(folder_, checkpoint.step), checkpoint.tensors, checkpoint.metadata);
        std::vector<std::int64_t> steps = steps_in(folder_);
        std::error_code ignored;                       // leftovers do no harm
        std::erase_if(steps, [&](std::int64_t step) {  // training did not continue from later ones
          if (step > checkpoint.step && is_damaged(path_of(folder_, step))) fs::remove(path_of(folder_, step), ignored);
          return step > checkpoint.step;
        });
        const std::set<std::int64_t> stay = kept(steps, scores, retention_);
        for (const std::int64_t step : steps) {
          if (!stay.contains(step)) fs::remove(path_of(folder_, step), ignored);
        }
      });
  written_ = writing.get_future();
  writer_ = start_thread<std::jthread>("writing a checkpoint", std::move(writing));
}

void CheckpointFolder::keep_model(const fs::path& model_path, const fs::path& name) {
  finish();
  const fs::path temporary = message(name.string(), ".tmp", getpid());
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_hard_link(model_path, temporary, error);  // a later model replaces the file, not the link
  if (error) fs::copy_file(model_path, temporary, error);
  if (!error) fs::rename(temporary, name, error);
  BRAID_CHECK(!error, Error, name.string(), ": cannot be written: ", error.message());
}

bool CheckpointFolder::busy() const {
  return written_.valid() && written_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void CheckpointFolder::finish() {
  if (!writer_.joinable()) return;
  writer_.join();
  written_.get();
}

fs::path CheckpointFolder::path_of(const fs::path& folder, std::int64_t step) {
  return folder / message(kPrefix, step, kSuffix);
}

std::vector<std::int64_t> CheckpointFolder::steps_in(const fs::path& folder) {
  return numbers_of_files(folder, kPrefix, kSuffix);
}

std::optional<std::int64_t> CheckpointFolder::restore_newest(const fs::path& folder, std::int64_t most_steps,
                                                             const std::function<void(SafeTensors&&)>& restore,
                                                             const std::function<void(const std::string&)>& warn) {
  std::string problems;
  for (const std::int64_t step : steps_in(folder)) {
    if (step > most_steps) continue;
    try {
      restore(SafeTensors(path_of(folder, step)));
      if (!problems.empty()) warn(problems + "; trying an older checkpoint");
      return step;
    } catch (const DataError& error) {
      if (problems.empty()) problems = error.what();
    }
  }
  BRAID_CHECK(problems.empty(), DataError, problems, ". No other checkpoint can be used");
  return std::nullopt;
}

}  // namespace braid
