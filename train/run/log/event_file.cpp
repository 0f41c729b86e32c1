// tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto and tensorflow/core/lib/io/record_writer.h
// define the format.

#include "train/run/log/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <span>

#include "core/base/error.h"
#include "core/text/json.h"
#include "train/export/protobuf.h"

namespace braid {

namespace {

/// TensorBoard's names of the members of a record.
struct Scalar {
  const char *key, *tag;
};
constexpr Scalar kOfSteps[] = {{"loss", "train/loss"},
                               {"accuracy", "train/accuracy"},
                               {"lr", "train/learning_rate"},
                               {"images_per_second", "train/images_per_second"}};
constexpr Scalar kOfEpochs[] = {{"loss", "epoch/loss"},
                                {"accuracy", "epoch/accuracy"},
                                {"val_loss", "val/loss"},
                                {"val_accuracy", "val/accuracy"},
                                {"val_top5", "val/top5_accuracy"}};

std::chrono::duration<double> since_epoch() { return std::chrono::system_clock::now().time_since_epoch(); }

std::filesystem::path new_event_file(const std::filesystem::path& folder) {
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') host[0] = '-';
  const auto seconds = static_cast<std::int64_t>(since_epoch().count());
  return folder / message("events.out.tfevents.", seconds, '.', host, '.', getpid());
}

/// A checksum of data that hold checksums would be weak, so TFRecord stores it altered.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8U; }

std::string framed(std::string_view event) {
  std::string record;
  append_little_endian(record, std::uint64_t{event.size()});
  append_little_endian(record, masked(crc32c(record)));
  record += event;
  append_little_endian(record, masked(crc32c(event)));
  return record;
}

ProtoMessage event_at(std::int64_t step) { return ProtoMessage().real64(1, since_epoch().count()).number(2, step); }

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) * 0x82F63B78U);
  }
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& folder, std::optional<std::int64_t> restart)
    : file_(new_event_file(folder), O_WRONLY | O_CREAT | O_APPEND) {
  file_.write(framed(event_at(0).text(3, "brain.Event:2").bytes()));
  if (!restart) return;
  constexpr int kStart = 1;  // SessionLog.START
  file_.write(framed(event_at(*restart).message(7, ProtoMessage().number(1, kStart)).bytes()));
}

void EventFile::add(const Json& record) {
  const std::int64_t step = record["step"].as_int64();
  ProtoMessage summary;
  const bool is_epoch = record["event"] == "epoch";
  for (const auto& [key, tag] : is_epoch ? std::span<const Scalar>(kOfEpochs) : kOfSteps) {
    const Json* found = record.find(key);
    if (found == nullptr || !found->is_number() || !std::isfinite(found->as_double())) continue;
    summary.message(1, ProtoMessage().text(1, tag).real(2, static_cast<float>(found->as_double())));
  }
  file_.write(framed(event_at(step).message(5, summary).bytes()));
}

}  // namespace braid
