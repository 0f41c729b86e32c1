#include "train/run/log/run_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/base/read_file.h"

namespace braid {

namespace {

namespace fs = std::filesystem;

/// Removes temporary files that a killed run has left in its folder and those of its jobs.
void clean(const fs::path& run) {
  remove_leftovers(run);
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(run, ignored)) {
    if (entry.is_directory(ignored)) remove_leftovers(entry.path());
  }
}

/// mkdir fails on an existing folder, so of two processes only one gets a number.
fs::path make_next_folder(const fs::path& root, const std::string& name) {
  try {
    fs::create_directories(root);
    for (const std::int64_t n : numbers_of_files(root, name + '-')) clean(root / message(name, '-', n));
    for (std::int64_t n = RunFolder::last_number(root, name) + 1;; ++n) {
      fs::path folder = root / message(name, '-', n);
      if (mkdir(folder.c_str(), 0777) == 0) return folder;
      BRAID_CHECK(errno == EEXIST, Error, folder.string(), ": cannot make the run's folder: ", std::strerror(errno));
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(message(root.string(), ": cannot make the folder for runs: ", error.code().message()));
  }
}

fs::path make_inner_folder(const fs::path& run, const std::string& name) {
  fs::path folder = run / name;
  BRAID_CHECK(mkdir(folder.c_str(), 0777) == 0, Error, folder.string(),
              ": cannot make the job's folder: ", std::strerror(errno));
  return folder;
}

}  // namespace

RunFolder::RunFolder(const fs::path& root, const std::string& name, const std::string& config_yaml)
    : RunFolder(make_next_folder(root, name), config_yaml) {}

RunFolder::RunFolder(const RunFolder& run, const std::string& name, const std::string& config_yaml)
    : RunFolder(make_inner_folder(run.path(), name), config_yaml) {}

RunFolder::RunFolder(fs::path folder, const std::string& config_yaml) : path_(std::move(folder)) {
  lock_.emplace(path_);
  try {
    replace_file(path_ / kConfig, config_yaml);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    throw;
  }
  metrics_.emplace(path_);
}

std::unique_ptr<RunFolder> RunFolder::of_other_rank(const fs::path& folder) {
  return std::unique_ptr<RunFolder>(new RunFolder(folder));
}

std::unique_ptr<RunFolder> RunFolder::reopen(const fs::path& folder) {
  clean(folder);
  std::unique_ptr<RunFolder> opened(new RunFolder(folder));
  opened->lock_.emplace(folder, false);
  return opened;
}

std::int64_t RunFolder::last_number(const fs::path& root, const std::string& name) {
  const std::vector<std::int64_t> numbers = numbers_of_files(root, name + '-');
  return numbers.empty() ? 0 : numbers.front();
}

fs::path RunFolder::checkpoint(const fs::path& folder, const std::string& name) {
  if (name.empty() || name == "last") return folder / kModel;
  if (name != "best") return name;
  BRAID_CHECK(exists(folder / kBest), DataError, folder.string(), ": there is no ", kBest,
              ": no validation of this run has had a finite result so far");
  return folder / kBest;
}

void RunFolder::go_on(const std::string& config_yaml, std::optional<std::uint64_t> metrics_bytes) {
  if (!lock_) return;
  if (!metrics_) metrics_.emplace(path_);
  if (read_file(path_ / kConfig, "the config") != config_yaml) replace_file(path_ / kConfig, config_yaml);
  if (metrics_bytes) metrics_->truncate(*metrics_bytes);
}

void RunFolder::write_report(const std::string& json) const {
  if (metrics_) replace_file(path_ / kReport, json);
}

void RunFolder::append_last_words(const Json& record) {
  try {
    append_metrics(record);
  } catch (const Error&) {
  }
}

}  // namespace braid
