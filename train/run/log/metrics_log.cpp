#include "train/run/log/metrics_log.h"

#include <fcntl.h>

#include "core/base/error.h"
#include "core/base/read_file.h"
#include "core/text/json.h"
#include "core/text/text.h"

namespace braid {

namespace {

constexpr const char* kColumns[] = {"event",    "step",           "epoch",        "lr",       "loss",
                                    "accuracy", "val_loss",       "val_accuracy", "val_top5", "images_per_second",
                                    "seconds",  "waiting_seconds"};
constexpr int kAppend = O_WRONLY | O_CREAT | O_APPEND;

void append_whole(File& file, std::string_view text) {
  const std::uint64_t complete = file.size();
  try {
    file.write(text);
  } catch (const Error&) {
    file.truncate(complete);
    throw;
  }
}

bool is_step_or_epoch(const Json& record) {
  const Json *event = record.find("event"), *step = record.find("step");
  return event != nullptr && (*event == "step" || *event == "epoch") && step != nullptr && step->is_int64();
}

}  // namespace

std::string csv_header() { return comma_list(kColumns, ",") + '\n'; }

std::string csv_line(const Json& record) {
  if (!is_step_or_epoch(record)) return {};
  std::string line;
  for (const char* column : kColumns) {
    if (column != kColumns[0]) line += ',';
    if (const Json* cell = record.find(column)) line += cell->is_string() ? cell->text() : cell->dump();
  }
  return line + '\n';
}

std::vector<Json> read_metrics(const std::filesystem::path& folder) {
  std::vector<Json> records;
  try {
    for (const std::string& line : split_text(read_file(folder / MetricsLog::kJson, "the metrics"), '\n')) {
      Json record = parse_json(line);
      if (!record.is_object()) break;
      records.push_back(std::move(record));
    }
  } catch (const JsonError&) {  // the last line is not whole
  }
  return records;
}

MetricsLog::MetricsLog(const std::filesystem::path& folder) : folder_(folder), json_(folder / kJson, kAppend) {}

void MetricsLog::append(const Json& record) {
  append_whole(json_, record.dump_sorted() + '\n');
  if (!is_step_or_epoch(record)) return;
  if (!csv_) csv_.emplace(folder_ / kCsv, kAppend);
  append_whole(*csv_, message(csv_->size() == 0 ? csv_header() : "", csv_line(record)));
  if (!events_) events_.emplace(folder_);
  events_->add(record);
}

void MetricsLog::truncate(std::uint64_t bytes) {
  if (json_.size() > bytes) json_.truncate(bytes);
  std::vector<Json> kept = read_metrics(folder_);
  std::erase_if(kept, [](const Json& record) { return !is_step_or_epoch(record); });
  std::string rows = csv_header();
  for (const Json& record : kept) rows += csv_line(record);
  const std::int64_t last = kept.empty() ? 0 : kept.back()["step"].as_int64();
  csv_.reset();
  write_file(folder_ / kCsv, rows);
  // The old event file may have more records of the last step than were kept: all records of that step are forgotten,
  // and the kept ones written again.
  events_.emplace(folder_, last);
  for (const Json& record : kept) {
    if (record["step"] == last) events_->add(record);
  }
}

}  // namespace braid
