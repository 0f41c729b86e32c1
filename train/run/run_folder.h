#pragma once
// The results of a training run: runs/<name>-<n>/ with the resolved config, the metrics and the trained model. With
// several jobs, each has its own folder inside.

#include <filesystem>
#include <string>
#include <string_view>

#include "train/checkpoint/files.h"

namespace braid {

class RunFolder {
 public:
  static constexpr const char* kConfig = "config.yaml";
  static constexpr const char* kMetrics = "metrics.jsonl";
  static constexpr const char* kModel = "model.safetensors";

  /// Makes root/name-n with the next free number n, even if several processes do so at once, and writes config.yaml.
  /// Removes temporary files that killed runs of this name have left in their folders. Throws Error with path and
  /// reason; then it leaves nothing behind except `root`.
  RunFolder(const std::filesystem::path& root, const std::string& name, const std::string& config_yaml);

  /// The folder of one job of a run: makes `name` in the run's folder.
  RunFolder(const RunFolder& run, const std::string& name, const std::string& config_yaml);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path model_path() const { return path_ / kModel; }
  /// Appends one line, a JSON object, to metrics.jsonl. Throws Error if it cannot write the whole line; then no part of
  /// it remains in the file.
  void append_metrics(std::string_view json);
  /// The same for a run that has failed, but ignores errors: the disk may be the cause of the failure, and the first
  /// error is the one to report.
  void append_last_words(std::string_view json);

 private:
  /// Fills a new folder.
  RunFolder(std::filesystem::path folder, const std::string& config_yaml);

  std::filesystem::path path_;
  FolderLock lock_;
  File metrics_;
};

}  // namespace braid
