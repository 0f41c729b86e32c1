#pragma once
// A config file as a tree in which every key and value knows its location, so that every error message can state it.
// Only the plain part of YAML is allowed: one document of nested maps, lists and scalars. yaml-cpp merges duplicate
// keys, stops at a second document and ends an open quote at the end of the file, all silently; here these are errors,
// and so are anchors, aliases and tags.

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

template <class Node>
struct ConfigEntry {
  std::string key;
  std::string location;  ///< location of the key
  Node value;
};

struct ConfigNode {
  enum class Kind { null, scalar, list, map };
  using Entry = ConfigEntry<ConfigNode>;

  Kind kind = Kind::null;
  std::string text = {};      ///< text of a scalar
  bool quoted = false;        ///< a quoted scalar is text, even if it looks like a number
  std::string location = {};  ///< "configs/x.yaml:7:3" or "--set train.lr=1"; lines and columns count from 1
  std::vector<ConfigNode> items = {};
  std::vector<Entry> entries = {};  ///< entries of a map, in their order

  /// The entry of a map; null if there is none.
  Entry* find(std::string_view key) {
    const auto found = std::ranges::find(entries, key, &Entry::key);
    return found == entries.end() ? nullptr : &*found;
  }
  const Entry* find(std::string_view key) const { return const_cast<ConfigNode*>(this)->find(key); }
};

/// Parses YAML; `source` is its name in messages. An empty text is an empty map.
/// Throws ConfigError "source:line:column: problem".
ConfigNode parse_config(std::string_view text, const std::string& source);

/// Reads and parses a file. Throws ConfigError, also if the file cannot be read or is too large to be a config.
ConfigNode read_config_file(const std::filesystem::path& path);

/// Applies "key.path=value", with the value in YAML. Replaces or adds the node at the path. The items of a list are
/// addressed by their key 'name' or by their index.
/// Throws ConfigError "--set key.path=value: problem".
void apply_override(ConfigNode& root, const std::string& assignment);

}  // namespace braid
