#pragma once
// The results of a training run: runs/<name>-<n>/ with the resolved config, the metrics and the trained model. With
// several jobs, each has its own folder inside.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "train/checkpoint/files.h"
#include "train/run/log/metrics_log.h"

namespace braid {

class RunFolder {
 public:
  static constexpr const char* kConfig = "config.yaml";
  static constexpr const char* kCheckpoints = "checkpoints";
  static constexpr const char* kModel = "model.safetensors";  ///< after the last step
  static constexpr const char* kBest = "best.safetensors";    ///< after the best validation
  static constexpr const char* kReport = "report.json";       ///< the results, once it has ended
  static constexpr const char* kWinner = "winner";            ///< of a PathNet run: the folder of its best path

  /// Makes root/name-n with the next free number n, even if several processes do so at once, and writes config.yaml.
  /// Removes temporary files that killed runs of this name have left in their folders. Throws Error with path and
  /// reason; then it leaves nothing behind except `root`.
  RunFolder(const std::filesystem::path& root, const std::string& name, const std::string& config_yaml);

  /// The folder of one job of a run: makes `name` in the run's folder.
  RunFolder(const RunFolder& run, const std::string& name, const std::string& config_yaml);

  /// The folder of a run that another rank writes: this rank writes nothing.
  static std::unique_ptr<RunFolder> of_other_rank(const std::filesystem::path& folder);

  /// Opens the folder of a run or of one of its jobs again. Until go_on() nothing is recorded in it. Throws Error if
  /// that cannot be done, or if another process uses the folder.
  static std::unique_ptr<RunFolder> reopen(const std::filesystem::path& folder);

  /// Continues with this config, once everything else has been restored: replaces config.yaml if it differs, and
  /// forgets the metrics after these bytes; none are forgotten without.
  void go_on(const std::string& config_yaml, std::optional<std::uint64_t> metrics_bytes = {});

  /// The file that a user means: of a run in this folder the "last" model, also if the name is empty, or the "best"
  /// one; any other name is a path. Throws DataError if the run has no best one.
  static std::filesystem::path checkpoint(const std::filesystem::path& folder, const std::string& name);

  /// The folder that has a run's model: of a PathNet run, that of its best path.
  static std::filesystem::path of_model(const std::filesystem::path& run) {
    return exists(run / kWinner / kConfig) ? run / kWinner : run;
  }

  /// The largest n of the folders root/name-n; 0 if there is none.
  static std::int64_t last_number(const std::filesystem::path& root, const std::string& name);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path model_path() const { return path_ / kModel; }
  std::filesystem::path best_path() const { return path_ / kBest; }
  std::filesystem::path checkpoints_path() const { return path_ / kCheckpoints; }
  std::uint64_t metrics_bytes() const { return metrics_ ? metrics_->bytes() : 0; }
  void append_metrics(const Json& record) {
    if (metrics_) metrics_->append(record);
  }
  /// Writes report.json; nothing if another rank writes this folder.
  void write_report(const std::string& json) const;
  /// Appends metrics of a run that has failed, but ignores errors: the disk may be the cause of the failure, and the
  /// first error is the one to report.
  void append_last_words(const Json& record);

 private:
  /// Fills a new folder.
  RunFolder(std::filesystem::path folder, const std::string& config_yaml);

  explicit RunFolder(std::filesystem::path folder) : path_(std::move(folder)) {}

  std::filesystem::path path_;
  std::optional<FolderLock> lock_;     // none if another rank has it
  std::optional<MetricsLog> metrics_;  // likewise, or before go_on()
};

}  // namespace braid
