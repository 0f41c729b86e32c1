#pragma once
// Strict, typed reading of a config tree. Each key is read into the variable that holds its default; what is left over
// is a mistake: unknown keys are errors, with a suggestion. Scalars are what they look like and nothing else: no octal
// 010, no yes, no numbers in quotes.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/tree.h"

namespace braid {

/// The values that a number may have.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  ///< min itself is excluded
  bool below_max = false;  ///< max itself is excluded
};
constexpr Range at_least(double min) { return {.min = min}; }
constexpr Range above(double min) { return {.min = min, .above_min = true}; }
constexpr Range between(double min, double max) { return {.min = min, .max = max}; }
/// [min, max)
constexpr Range below(double min, double max) { return {.min = min, .max = max, .below_max = true}; }

/// One map of the tree. Every method throws ConfigError "file:line:column: key.path: what was expected and found".
class ConfigSection {
 public:
  /// The node must outlive the section.
  explicit ConfigSection(const ConfigNode& root) : ConfigSection(root, "", root.location) {}

  /// Reads a key if it is there; otherwise the target keeps its value, the default.
  void read(std::string_view key, bool& target);
  void read(std::string_view key, int& target, const Range& range);
  void read(std::string_view key, std::int64_t& target, const Range& range);
  void read(std::string_view key, std::uint64_t& target);
  void read(std::string_view key, double& target, const Range& range);
  void read(std::string_view key, std::string& target);
  void read(std::string_view key, std::string& target, std::span<const std::string> choices);
  void read(std::string_view key, std::vector<double>& target, const Range& range);
  void read(std::string_view key, std::vector<std::int64_t>& target, const Range& range);
  /// An integer in the range, or a word that stands for 0, as 'auto'.
  void read_or_word(std::string_view key, int& target, const Range& range, std::string_view word);

  /// The map under a key, empty if the key is missing.
  ConfigSection section(std::string_view key);
  /// The maps of the list under a key, one at least. Messages name each by its own key 'name', or by its index.
  std::vector<ConfigSection> sections(std::string_view key);
  /// From now on a missing key is an error.
  void require(std::string_view key);
  /// A key that exists, but not here: an error if it is there.
  void reject(std::string_view key, std::string_view reason);
  bool has(std::string_view key) const { return node_.find(key) != nullptr; }
  /// Whether a list or a map stands under the key, for keys that may also take a scalar.
  bool is_list(std::string_view key) const { return is(key, ConfigNode::Kind::list); }
  bool is_map(std::string_view key) const { return is(key, ConfigNode::Kind::map); }

  /// Throws if a key was never asked for or a required one is missing. To be called when all have been read.
  void finish() const;
  /// Throws the error "location: key.path: what" for a key that was read.
  [[noreturn]] void fail(std::string_view key, std::string_view what) const;

 private:
  ConfigSection(const ConfigNode& node, std::string path, std::string location);
  bool is(std::string_view key, ConfigNode::Kind kind) const;
  const ConfigNode* take(std::string_view key);
  std::string path_of(std::string_view key) const;
  std::int64_t integer(std::string_view key, const ConfigNode& value, const Range& range) const;
  double number(std::string_view key, const ConfigNode& value, const Range& range) const;
  [[noreturn]] void mismatch(std::string_view key, const ConfigNode& value, std::string_view expected) const;
  [[noreturn]] void fail_at(const std::string& location, std::string_view key, std::string_view what) const;

  const ConfigNode& node_;
  std::string path_;
  std::string location_;  ///< of the section, or of what should hold it
  std::vector<std::string> known_;
  std::vector<std::string> required_;
};

}  // namespace braid
