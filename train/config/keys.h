#pragma once
// Each key of a config is declared once, in declare() of the struct that holds its value: its name, the values that it
// accepts, and a sentence. Reading, writing, the JSON Schema and the tables of docs/configuration.md all derive from
// that: to read, declare() runs with a Keys that sets each value from a file; for the rest, with one that collects
// them.
//
// To add a key: a member and a line in the declare() of its struct, then scripts/check_docs.py PROGRAM --update.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "train/config/tree.h"

namespace braid {

/// A value; its alternative is the key's type.
using KeyValue = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::int64_t>,
                              std::vector<double>, std::vector<std::string>>;

/// What a key accepts. Upper limits of counts catch typing errors before they exhaust the machine.
struct KeyRule {
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  static constexpr double kMaxCount = 1e9;

  double min = -kUnlimited, above = -kUnlimited;  ///< limits of numbers, and of the numbers in a list
  double max = kUnlimited, below = kUnlimited;
  double max_now = kUnlimited;                        ///< a max that depends on other keys; the schema ignores it
  std::string_view word = {};                         ///< stands for the integer 0
  std::vector<std::string> words = {};                ///< the values of a text, or of an enumeration in its order
  std::string_view pattern = {}, form = {};           ///< a text's regular expression, and the same in words
  std::string (*hint)(const std::string&) = nullptr;  ///< advice for a text that does not match
  bool path = false;                                  ///< a file or folder: ~/ is the user's home
  double min_items = 0, max_items = kUnlimited;       ///< lengths of a list
  bool single = false;  ///< a list: a value alone is a list of it, and `word` stands for the number -1
  std::string_view unit = {};
  bool required = false;
  std::string_view instead = {};                ///< for a required key: one that may replace it, but not stand with it
  std::vector<std::string_view> synonyms = {};  ///< names of the key in PyTorch, timm and Caffe, in lower case
  std::string_view formerly = {};               ///< its path before it was renamed, which an error explains
};

/// A declared key.
struct Key {
  enum class Kind {
    value,
    section,
    list,      ///< a list of sections, whose keys have paths such as "jobs.*.name"
    rejected,  ///< exists in other configs; the text says why not in this one
  };
  Kind kind = Kind::value;
  std::string path = {};  ///< for example "optimizer.lr"
  KeyValue value = {};
  KeyRule rule = {};
  std::string text = {};  ///< a sentence
  /// The words that have this key, in a section whose key "name" or "type" decides which other keys exist; empty for
  /// all.
  std::vector<std::string> only_for = {};
  /// Words whose default differs from `value`.
  std::vector<std::pair<std::string, KeyValue>> defaults = {};
};

/// False for a value that only means "not given", such as 0 for a key that must be positive.
bool accepts(const KeyRule& rule, const KeyValue& value);

const Key* find_key(const std::vector<Key>& keys, std::string_view path);
/// The key that decides which other keys a section has; null if there is none.
const Key* choice_in(const std::vector<Key>& keys, std::string_view section);

struct KeyPass;

/// The keys of one map of a config. While reading, all methods throw ConfigError "file:line:column: key.path: problem".
class Keys {
 public:
  Keys(KeyPass& pass, const ConfigNode* map, std::string location, std::string path, std::string shown)
      : pass_(&pass), map_(map), location_(std::move(location)), path_(std::move(path)), shown_(std::move(shown)) {}

  /// Declares a key. The target's value is the default. Two keys may share a name if the values have different shapes
  /// (scalar, list, section): the file's decides.
  template <class T>
  void operator()(std::string_view name, T& target, KeyRule rule, std::string_view text) const {
    if constexpr (std::is_enum_v<T>) {
      const auto value = visit(name, rule.words[static_cast<std::size_t>(target)], rule, text);
      const auto at = std::find(rule.words.begin(), rule.words.end(), std::get<std::string>(value));
      target = static_cast<T>(at - rule.words.begin());
    } else if constexpr (std::is_same_v<T, int>) {
      rule.max = std::min<double>(rule.max, std::numeric_limits<int>::max());
      target = static_cast<int>(std::get<std::int64_t>(visit(name, std::int64_t{target}, rule, text)));
    } else if constexpr (std::is_same_v<T, std::vector<int>>) {
      rule.max = std::min<double>(rule.max, std::numeric_limits<int>::max());
      const KeyValue value = visit(name, std::vector<std::int64_t>(target.begin(), target.end()), rule, text);
      const auto& wide = std::get<std::vector<std::int64_t>>(value);
      target.assign(wide.begin(), wide.end());
    } else {
      target = std::get<T>(visit(name, target, rule, text));
    }
  }
  Keys section(std::string_view name, std::string_view text, std::vector<std::string_view> synonyms = {}) const;
  /// A list of sections: declare(keys, item) declares the keys of one item.
  template <class T, class Declare>
  void list(std::string_view name, std::vector<T>& items, const KeyRule& rule, std::string_view text,
            const Declare& declare) const {
    const std::vector<Keys> sections = list_items(name, rule, text, items.size());
    for (std::size_t i = 0; i < sections.size(); ++i) {
      T sample;
      declare(sections[i], items.size() > i ? items[i] : reads() ? items.emplace_back() : sample);
    }
  }
  /// Declares a key of other kinds of configs: an error in this one.
  void reject(std::string_view name, std::string_view why) const;
  /// Adds a condition on a key beyond its rule, checked after reading it.
  void check(std::string_view name, bool holds, std::string_view what) const;

 private:
  KeyValue visit(std::string_view name, KeyValue value, const KeyRule& rule, std::string_view text) const;
  /// While reading, the sections of the list; otherwise one section per item, and at least one.
  std::vector<Keys> list_items(std::string_view name, const KeyRule& rule, std::string_view text,
                               std::size_t items) const;
  bool reads() const;

  KeyPass* pass_;
  const ConfigNode* map_;  // null if the section is missing, or nothing is read
  std::string location_;   // location of the section, or of its parent if it is missing
  std::string path_;       // in the form of Key::path
  std::string shown_;      // in the form of messages: "jobs.resnet20.train"
};

/// The declared keys with their current values. A key at `path` is assumed to have the value `word`.
std::vector<Key> note_keys(const std::function<void(const Keys&)>& declare, std::string_view path = {},
                           std::string_view word = {});
/// All keys that any value of the keys called "name" or "type" declares. `declare` begins with a new struct each time.
std::vector<Key> all_keys(const std::function<void(const Keys&)>& declare);
/// Sets the values in the tree. Throws ConfigError on the first mistake; `known` are all keys.
void read_keys(const ConfigNode& tree, const std::vector<Key>& known, const std::function<void(const Keys&)>& declare);

/// All keys of a kind of config, with their defaults.
template <class Config>
const std::vector<Key>& keys_of() {
  static const std::vector<Key> keys = all_keys([](const Keys& declared) {
    Config config;
    config.declare(declared);
  });
  return keys;
}

template <class Config>
Config read_config(const ConfigNode& tree) {
  Config config;
  read_keys(tree, keys_of<Config>(), [&](const Keys& keys) { config.declare(keys); });
  return config;
}

/// The kinds of configs: of a single model, of a list of jobs, and of a PathNet run.
struct ConfigKinds {
  const std::vector<Key>&single, &jobs, &pathnet;
};
ConfigKinds config_kinds();

/// The keys as YAML, defaults included.
std::string to_yaml(const std::vector<Key>& keys);
std::string to_yaml(const KeyRule& rule, const KeyValue& value);
/// A JSON Schema (draft 2020-12) of all configs.
std::string config_schema();
/// The tables of docs/configuration.md, each between lines "<!-- keys: section -->" and "<!-- end of keys -->".
std::string config_tables();

}  // namespace braid
