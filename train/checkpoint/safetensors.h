#pragma once
// Named tensors in a file that other tools read, too: https://github.com/huggingface/safetensors, "Format".
//
//     u64         bytes of the header, little-endian
//     header      JSON: {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets": [begin, end]}, …}
//     elements    little-endian, one tensor after the other, without holes
//
// Files that Braid writes hold a CRC-32 of all their bytes in the metadata: "checksum": "crc32", "crc32": "1c291ca3".
// It is computed as if its own eight digits were zeros.

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/array.h"

namespace braid {

struct NamedArray {
  std::string name;
  Array value;
  std::string_view dtype = {};  ///< in the format's words, of elements of the same size; empty: the array's
};

/// The content of a file, checked as a whole: its sizes, its header and, if there is one, its checksum.
class SafeTensors {
 public:
  struct Entry {
    std::string dtype;  ///< in the format's words, as "F32"; Braid may have no such type
    std::vector<std::int64_t> shape;
    std::size_t begin, bytes;
  };

  /// Throws DataError "path: problem".
  explicit SafeTensors(const std::filesystem::path& path);
  SafeTensors(SafeTensors&&) = default;  // no copies: there are pointers into the content
  SafeTensors& operator=(SafeTensors&&) = default;

  const std::string& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  bool contains(const std::string& name) const { return entries_.contains(name); }
  /// Throws DataError "path: what" unless the condition holds.
  template <class... Parts>
  void expect(bool condition, const Parts&... what) const {
    BRAID_CHECK(condition, DataError, path_, ": ", what...);
  }
  /// A copy of a tensor. Throws DataError if it is missing, or if Braid has no such dtype or rank.
  Array array(const std::string& name) const;

 private:
  void parse(std::string_view header);
  void check_places() const;
  void check_checksum(std::string_view header) const;

  std::string path_;
  std::string bytes_;
  std::string_view elements_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Entry> entries_;
};

/// Writes the tensors in this order. The file appears atomically and durably. Throws Error if it cannot be written, or
/// if two tensors have one name.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace braid
