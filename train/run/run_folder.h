#pragma once
// What a training run leaves behind: runs/<name>-<n>/ with the resolved config, the metrics and the trained model. With
// several jobs, each leaves a folder of its own in there.

#include <filesystem>
#include <string>
#include <string_view>

#include "train/run/files.h"

namespace braid {

class RunFolder {
 public:
  static constexpr const char* kConfig = "config.yaml";
  static constexpr const char* kMetrics = "metrics.jsonl";
  static constexpr const char* kModel = "model.braid";

  /// Makes root/name-n with the next number n that is free, also if several processes do so at once, and writes
  /// config.yaml. Removes temporary files that killed runs of this name have left in their folders. Throws Error with
  /// path and reason; then nothing is left behind but `root` itself.
  RunFolder(const std::filesystem::path& root, const std::string& name, const std::string& config_yaml);

  /// The folder of one job of a run: makes name in the run's folder.
  RunFolder(const RunFolder& run, const std::string& name, const std::string& config_yaml);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path model_path() const { return path_ / kModel; }
  /// Appends one line, a JSON object, to metrics.jsonl. Throws Error if it cannot be written as a whole; a part of it
  /// is then not left in the file.
  void append_metrics(std::string_view json);
  /// The same for a run that has failed: if it cannot be written, nothing happens. The disk may be what failed, and the
  /// first error is the one to report.
  void append_last_words(std::string_view json);

 private:
  /// Fills a folder that was just made.
  RunFolder(std::filesystem::path folder, const std::string& config_yaml);

  std::filesystem::path path_;
  FolderLock lock_;
  File metrics_;
};

}  // namespace braid
