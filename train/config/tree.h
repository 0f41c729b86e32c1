#pragma once
// A config file as a tree in which every key and value knows where it stands, so that every complaint can say so.
// Only the plain part of YAML is allowed: one document of nested maps, lists and scalars. yaml-cpp merges duplicate
// keys, stops at a second document and ends an open quote at the end of the file, all without a word; here these are
// errors, and so are anchors, aliases and tags.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

struct ConfigNode {
  enum class Kind { null, scalar, list, map };
  struct Entry;

  Kind kind = Kind::null;
  std::string text = {};      ///< of a scalar
  bool quoted = false;        ///< a quoted scalar is text, whatever it looks like
  std::string location = {};  ///< as "configs/x.yaml:7:3" or "--set train.lr=1"; lines and columns count from 1
  std::vector<ConfigNode> items = {};
  std::vector<Entry> entries = {};  ///< of a map, in their order

  /// The entry of a map; null if there is none.
  Entry* find(std::string_view key);
  const Entry* find(std::string_view key) const;
};

struct ConfigNode::Entry {
  std::string key;
  std::string location;  ///< of the key
  ConfigNode value;
};

/// Parses YAML; `source` is its name in messages. An empty text is an empty map.
/// Throws ConfigError "source:line:column: what is wrong".
ConfigNode parse_config(std::string_view text, const std::string& source);

/// Reads and parses a file. Throws ConfigError, also if the file cannot be read or is too large to be a config.
ConfigNode read_config_file(const std::filesystem::path& path);

/// Applies "key.path=value", with the value in YAML. Replaces what stood at the path, or adds it. Items of a list go by
/// their key 'name', or by their index.
/// Throws ConfigError "--set key.path=value: what is wrong".
void apply_override(ConfigNode& root, const std::string& assignment);

}  // namespace braid
