#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "core/error.h"

namespace braid {

namespace {

namespace fs = std::filesystem;

/// The largest n of the folders root/name-n; 0 if there are none.
std::int64_t last_number(const fs::path& root, const std::string& name) {
  std::int64_t last = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with(name + '-')) continue;
    const std::string_view digits = std::string_view(file).substr(name.size() + 1);
    std::int32_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc{} && end == digits.data() + digits.size()) last = std::max<std::int64_t>(last, number);
  }
  return last;
}

/// mkdir fails on an existing folder, so of two processes only one gets a number.
fs::path make_next_folder(const fs::path& root, const std::string& name) {
  try {
    fs::create_directories(root);
    for (std::int64_t n = last_number(root, name) + 1;; ++n) {
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

/// Writes the config; if that fails, the folder goes.
fs::path with_config(fs::path folder, const std::string& config_yaml) {
  try {
    AtomicFile config(folder / RunFolder::kConfig);
    config.write(config_yaml);
    config.commit();
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    throw;
  }
  return folder;
}

}  // namespace

RunFolder::RunFolder(const fs::path& root, const std::string& name, const std::string& config_yaml)
    : RunFolder(make_next_folder(root, name), config_yaml) {}

RunFolder::RunFolder(const RunFolder& run, const std::string& name, const std::string& config_yaml)
    : RunFolder(make_inner_folder(run.path(), name), config_yaml) {}

RunFolder::RunFolder(fs::path folder, const std::string& config_yaml)
    : path_(with_config(std::move(folder), config_yaml)), metrics_(path_ / kMetrics, O_WRONLY | O_CREAT | O_APPEND) {}

void RunFolder::append_metrics(std::string_view json) {
  const std::uint64_t complete = metrics_.size();
  try {
    metrics_.write(message(json, '\n'));
  } catch (const Error&) {
    metrics_.truncate(complete);
    throw;
  }
}

void RunFolder::append_last_words(std::string_view json) {
  try {
    append_metrics(json);
  } catch (const Error&) {
  }
}

}  // namespace braid
