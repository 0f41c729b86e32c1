#pragma once
// The records of a run: metrics.jsonl has all of them; metrics.csv and an event file of TensorBoard also have those of
// steps and epochs, for spreadsheets and curves.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/files.h"
#include "train/run/log/event_file.h"

namespace braid {

class Json;

class MetricsLog {
 public:
  static constexpr const char *kJson = "metrics.jsonl", *kCsv = "metrics.csv";

  /// Appends to the files in a folder, or makes them: metrics.csv and the event file with the first record that belongs
  /// there. Throws Error if metrics.jsonl cannot be opened.
  explicit MetricsLog(const std::filesystem::path& folder);

  /// The size of metrics.jsonl.
  std::uint64_t bytes() const { return json_.size(); }
  /// Appends a record, in one line with sorted keys. Throws Error if a file does not take it as a whole; then no part
  /// of it remains in that file.
  void append(const Json& record);
  /// Forgets the records after these bytes of metrics.jsonl. An event file cannot forget: the next one tells
  /// TensorBoard to. Throws Error if that cannot be written.
  void truncate(std::uint64_t bytes);

 private:
  std::filesystem::path folder_;
  File json_;
  std::optional<File> csv_;
  std::optional<EventFile> events_;
};

/// The records in metrics.jsonl of a run's folder. Stops at a line that is still being written. Throws DataError if the
/// file cannot be read.
std::vector<Json> read_metrics(const std::filesystem::path& folder);

/// The line of a record in metrics.csv; empty if it is not about a step or an epoch.
std::string csv_line(const Json& record);
/// The first line of metrics.csv.
std::string csv_header();

}  // namespace braid
