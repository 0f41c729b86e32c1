#pragma once
// Scalars over steps for TensorBoard: an event file, in TFRecord framing.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "train/checkpoint/files.h"

namespace braid {

class Json;

class EventFile {
 public:
  /// Begins a new file, events.out.tfevents.SECONDS.HOST.PROCESS, in the folder. With `restart`, TensorBoard
  /// forgets what earlier files of the folder say about this step and later ones. Throws Error if that fails.
  explicit EventFile(const std::filesystem::path& folder, std::optional<std::int64_t> restart = std::nullopt);

  /// Adds the finite numbers of a record of a step or of an epoch. Throws Error if it cannot write them.
  void add(const Json& record);

 private:
  File file_;
};

/// The CRC-32C (Castagnoli) of bytes, which TFRecord needs.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace braid
