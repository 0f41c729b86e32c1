#pragma once
// Reading a data file as a whole, compressed or not.

#include <cstdint>
#include <filesystem>
#include <vector>

namespace braid {

/// Default limit for the content of one data file, in bytes: a broken or hostile file must not exhaust the memory.
inline constexpr std::uint32_t kMaxDataFileBytes = 1u << 30;

/// The content of a file, decompressed if it starts with the magic bytes of gzip, whatever its name.
/// Throws DataError that names the file and the byte (of the file as stored) if it is missing or unreadable, if it or
/// its content exceeds max_bytes, or if it is not exactly one intact gzip stream. Thread-safe.
std::vector<std::uint8_t> read_data_file(const std::filesystem::path& path,
                                         std::uint32_t max_bytes = kMaxDataFileBytes);

}  // namespace braid
