#include "train/run/log/metrics_log.h"

#include <doctest/doctest.h>

#include <bit>
#include <map>

#include "core/base/error.h"
#include "core/text/json.h"
#include "tests/data/files.h"
#include "tests/train/file_size_limit.h"
#include "tests/train/run_files.h"

using namespace braid;
using namespace braid::testing;

namespace {

Json step_record(int step, double loss) {
  return {{"event", "step"}, {"step", step},     {"epoch", 1},     {"lr", 0.5},
          {"loss", loss},    {"accuracy", 0.25}, {"more", "text"}, {"images_per_second", 100.5}};
}

Json epoch_record(int step, double loss, double val_loss) {
  return {{"event", "epoch"}, {"step", step},           {"epoch", 1},           {"lr", 0.5},
          {"loss", loss},     {"accuracy", 0.25},       {"val_loss", val_loss}, {"val_accuracy", 0.75},
          {"val_top5", 1},    {"images_per_second", 8}, {"seconds", 2},         {"waiting_seconds", 0.5}};
}

std::uint64_t little_endian(std::string_view bytes, std::size_t at, int count) {
  std::uint64_t value = 0;
  for (int i = 0; i < count; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes.at(at + static_cast<std::size_t>(i)))} << (8 * i);
  }
  return value;
}

/// The fields of a protobuf message: numbers as they are, bytes as text.
struct Field {
  std::uint64_t number = 0;
  std::string text = {};
};
std::multimap<int, Field> fields_of(std::string_view bytes) {
  std::multimap<int, Field> fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.size()) {
    const std::uint64_t tag = varint();
    Field field;
    const std::uint64_t type = tag & 7U;
    if (type == 0) {
      field.number = varint();
    } else if (type == 2) {
      const std::uint64_t size = varint();
      field.text = bytes.substr(at, size);
      at += size;
    } else {
      const int size = type == 1 ? 8 : 4;
      field.number = little_endian(bytes, at, size);
      at += static_cast<std::size_t>(size);
    }
    fields.emplace(static_cast<int>(tag >> 3U), field);
  }
  return fields;
}

/// Every scalar as "step tag value", and what else the file says; checks the framing.
std::vector<std::string> events_in(const std::filesystem::path& file) {
  const std::string bytes = bytes_of(file);
  const auto unmasked = [](std::uint64_t crc) { return std::rotl(static_cast<std::uint32_t>(crc) - 0xA282EAD8U, 15); };
  std::vector<std::string> events;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::uint64_t size = little_endian(bytes, at, 8);
    CHECK(crc32c(bytes.substr(at, 8)) == unmasked(little_endian(bytes, at + 8, 4)));
    const std::string event = bytes.substr(at + 12, size);
    CHECK(crc32c(event) == unmasked(little_endian(bytes, at + 12 + size, 4)));
    at += size + 16;
    const auto fields = fields_of(event);
    CHECK(std::bit_cast<double>(fields.find(1)->second.number) > 1.7e9);  // the time, in seconds since 1970
    const std::uint64_t step = fields.find(2)->second.number;
    if (const auto version = fields.find(3); version != fields.end()) events.push_back(version->second.text);
    if (fields.contains(7)) events.push_back(message("start ", step));
    if (!fields.contains(5)) continue;
    for (const auto& [number, value] : fields_of(fields.find(5)->second.text)) {
      const auto scalar = fields_of(value.text);
      const auto bits = static_cast<std::uint32_t>(scalar.find(2)->second.number);
      events.push_back(message(step, ' ', scalar.find(1)->second.text, ' ', std::bit_cast<float>(bits)));
    }
  }
  return events;
}

std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path());
  }
  return files;
}

const std::string kHeader =
    "event,step,epoch,lr,loss,accuracy,val_loss,val_accuracy,val_top5,images_per_second,seconds,waiting_seconds\n";

}  // namespace

TEST_CASE("metrics.csv has a row for every record of a step or an epoch") {
  const TemporaryFolder folder;
  {
    MetricsLog log(folder.path());
    log.append(parse_json(R"({"event":"memory","joint_arena_bytes":1})"));
    CHECK_FALSE(std::filesystem::exists(folder.path() + "/metrics.csv"));
    log.append(step_record(2, 1.5));
    log.append(epoch_record(3, 1.25, 0.5));
  }
  MetricsLog(folder.path()).append(step_record(4, 1));
  CHECK(bytes_of(folder.path() + "/metrics.csv") == kHeader +
                                                        "step,2,1,0.5,1.5,0.25,,,,100.5,,\n"
                                                        "epoch,3,1,0.5,1.25,0.25,0.5,0.75,1,8,2,0.5\n"
                                                        "step,4,1,0.5,1.0,0.25,,,,100.5,,\n");
  CHECK(read_metrics(folder.path()).size() == 4);
}

TEST_CASE("records of strange types are passed over") {
  for (const char* record :
       {R"({"event": 3, "step": 1})", R"({"event": "step", "step": "x"})", R"({"event": "step"})"}) {
    CHECK(csv_line(parse_json(record)).empty());
  }
}

TEST_CASE("a record that does not fit on the disk is an error, and leaves no part in any file") {
  const TemporaryFolder folder;
  MetricsLog log(folder.path());
  const std::string first = step_record(1, 1).dump_sorted();
  log.append(step_record(1, 1));
  CHECK(bytes_of(folder.path() + "/metrics.jsonl") == first + '\n');  // at once
  const std::string before = bytes_of(folder.path() + "/metrics.csv");
  {
    const FileSizeLimit limit(first.size() + 10);
    CHECK(error_of<Error>([&] { log.append(step_record(1, 1)); }) ==
          folder.path() + "/metrics.jsonl: cannot write: File too large");
  }
  CHECK(bytes_of(folder.path() + "/metrics.jsonl") == first + '\n');
  // Only metrics.jsonl has room.
  std::filesystem::resize_file(folder.path() + "/metrics.jsonl", 0);
  {
    const FileSizeLimit limit(before.size() + 10);
    CHECK_THROWS_AS(log.append(parse_json(R"({"event":"step","step":2,"lr":0.123456789})")), Error);
  }
  CHECK(bytes_of(folder.path() + "/metrics.csv") == before);
}

TEST_CASE("records that are forgotten leave metrics.csv too") {
  const TemporaryFolder folder;
  MetricsLog log(folder.path());
  log.append(step_record(1, 4));
  const std::uint64_t kept = log.bytes();
  log.append(step_record(2, 3));
  log.truncate(kept);
  CHECK(bytes_of(folder.path() + "/metrics.csv") == kHeader + "step,1,1,0.5,4.0,0.25,,,,100.5,,\n");
  log.append(step_record(2, 2));
  CHECK(bytes_of(folder.path() + "/metrics.csv") ==
        kHeader + "step,1,1,0.5,4.0,0.25,,,,100.5,,\nstep,2,1,0.5,2.0,0.25,,,,100.5,,\n");
  CHECK(read_metrics(folder.path()).back() == step_record(2, 2));
}

TEST_CASE("the checksum of event files is CRC-32C") {
  CHECK(crc32c("123456789") == 0xE3069283U);  // RFC 3720, appendix B.4, and the catalogue of CRCs
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
}

TEST_CASE("an event file has the scalars of steps and epochs") {
  const TemporaryFolder folder;
  MetricsLog log(folder.path());
  log.append(parse_json(R"({"event":"failed","step":9})"));
  CHECK(event_files(folder.path()).empty());
  log.append(step_record(300, 1.5));
  log.append(epoch_record(300, 1.75, 0.5));
  log.append(epoch_record(400, 1.25, 0.375));
  const auto files = event_files(folder.path());
  REQUIRE(files.size() == 1);
  CHECK(events_in(files.front()) ==
        std::vector<std::string>{
            "brain.Event:2", "300 train/loss 1.5", "300 train/accuracy 0.25", "300 train/learning_rate 0.5",
            "300 train/images_per_second 100.5", "300 epoch/loss 1.75", "300 epoch/accuracy 0.25", "300 val/loss 0.5",
            "300 val/accuracy 0.75", "300 val/top5_accuracy 1", "400 epoch/loss 1.25", "400 epoch/accuracy 0.25",
            "400 val/loss 0.375", "400 val/accuracy 0.75", "400 val/top5_accuracy 1"});
}

TEST_CASE("after a restart, an event file makes TensorBoard forget the last step, and has what was kept of it") {
  const TemporaryFolder folder;
  std::uint64_t kept = 0;
  {
    MetricsLog log(folder.path());
    log.append(step_record(1, 4));
    log.append(step_record(2, 3));
    kept = log.bytes();
    log.append(epoch_record(2, 3, 0.5));
    log.append(step_record(3, 2));
  }
  for (const auto& file : event_files(folder.path())) std::filesystem::remove(file);
  MetricsLog log(folder.path());
  log.truncate(kept);
  log.append(epoch_record(2, 3, 0.5));
  const auto files = event_files(folder.path());
  REQUIRE(files.size() == 1);
  CHECK(events_in(files.front()) == std::vector<std::string>{"brain.Event:2", "start 2", "2 train/loss 3",
                                                             "2 train/accuracy 0.25", "2 train/learning_rate 0.5",
                                                             "2 train/images_per_second 100.5", "2 epoch/loss 3",
                                                             "2 epoch/accuracy 0.25", "2 val/loss 0.5",
                                                             "2 val/accuracy 0.75", "2 val/top5_accuracy 1"});
}
