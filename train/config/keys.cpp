#include "train/config/keys.h"

#include <regex.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <limits>

#include "core/base/error.h"
#include "core/base/text_stream.h"
#include "core/text/suggestion.h"
#include "core/text/text.h"
#include "train/config/similar_keys.h"

namespace braid {

/// One run of a declare().
struct KeyPass {
  std::vector<Key> noted = {};
  std::string_view assumed_path = {}, assumed_word = {};
  const std::vector<Key>* known = nullptr;  ///< reading: all keys of the config; null while noting keys
};

namespace {

using NodeKind = ConfigNode::Kind;

std::string joined(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : message(path, '.', key);
}

[[noreturn]] void fail_at(const std::string& location, const std::string& path, std::string_view what) {
  // The location of an override already contains the path.
  if (location.starts_with("--set " + path + "=")) throw ConfigError(message(location, ": ", what));
  throw ConfigError(message(location, ": ", path, ": ", what));
}

/// A short description of the node for messages.
std::string describe(const ConfigNode& node) {
  constexpr std::size_t kMaxLength = 41;
  switch (node.kind) {
    case NodeKind::null: return "nothing";
    case NodeKind::list: return node.items.empty() ? "an empty list" : "a list";
    case NodeKind::map: return "a map";
    case NodeKind::scalar: break;
  }
  std::string text = shortened(node.text, kMaxLength);
  std::ranges::replace(text, '\n', ' ');
  return message(node.quoted ? "the quoted text '" : "'", text, "'");
}

[[noreturn]] void mismatch(const ConfigNode& node, const std::string& path, std::string_view expected) {
  fail_at(node.location, path, message("expected ", expected, ", got ", describe(node)));
}

/// "an integer of at least 1", "a number in [0, 1)".
std::string expectation(std::string_view what, const KeyRule& rule) {
  const double low = std::max(rule.min, rule.above), high = std::min({rule.max, rule.below, rule.max_now});
  const bool open = rule.above > rule.min;
  TextStream out;
  out << std::setprecision(std::numeric_limits<double>::digits10) << what;  // large integers in full
  if (std::isfinite(low) && std::isfinite(high)) {
    out << " in " << (open ? '(' : '[') << low << ", " << high << (high == rule.below ? ')' : ']');
  } else if (std::isfinite(low)) {
    out << (open ? " above " : " of at least ") << low;
  }
  return out.str();
}

bool in_range(const KeyRule& rule, double value) {
  return value >= rule.min && value > rule.above && value <= std::min(rule.max, rule.max_now) && value < rule.below;
}

/// Whether the whole text matches a POSIX extended regular expression.
bool matches(const std::string& text, std::string_view pattern) {
  regex_t expression;
  const int error = regcomp(&expression, message("^(", pattern, ")$").c_str(), REG_EXTENDED | REG_NOSUB);
  BRAID_CHECK(error == 0, Error, "[config] not a regular expression: ", pattern);
  const bool found = text.find('\0') == std::string::npos && regexec(&expression, text.c_str(), 0, nullptr, 0) == 0;
  regfree(&expression);
  return found;
}

/// JSON's grammar.
bool is_number(const std::string& text, bool integral) {
  constexpr std::size_t kMaxLength = 400;  // what is longer is a mistake
  constexpr std::string_view kInteger = "-?(0|[1-9][0-9]*)", kRest = "(\\.[0-9]+)?([eE][+-]?[0-9]+)?";
  return text.size() <= kMaxLength && matches(text, message(kInteger, integral ? "" : kRest));
}

/// False unless the whole text is a plain scalar that T can hold. Scalars are read literally: no octal 010, no yes, no
/// numbers in quotes.
template <class T>
bool parse_number(const ConfigNode& node, T& value) {
  if (node.kind != NodeKind::scalar || node.quoted || !is_number(node.text, std::is_integral_v<T>)) return false;
  const auto [end, error] = std::from_chars(node.text.data(), node.text.data() + node.text.size(), value);
  return error == std::errc{};
}

/// Parses the value of one key, by its type.
struct ValueParser {
  const ConfigNode& node;
  const std::string& path;
  const KeyRule& rule;

  KeyValue operator()(bool) const {
    const bool valid = node.kind == NodeKind::scalar && !node.quoted && (node.text == "true" || node.text == "false");
    if (!valid) mismatch(node, path, "true or false");
    return node.text == "true";
  }

  KeyValue operator()(std::int64_t) const {
    if (rule.word.empty()) return number<std::int64_t>(node, "an integer");
    if (node.kind == NodeKind::scalar && node.text == rule.word) return std::int64_t{0};
    return number<std::int64_t>(node, message('\'', rule.word, "' or an integer"));
  }

  KeyValue operator()(std::uint64_t value) const {
    if (!parse_number(node, value)) mismatch(node, path, "an integer from 0 to 2^64 - 1");
    return value;
  }

  KeyValue operator()(double) const { return number<double>(node, "a number"); }

  KeyValue operator()(const std::string&) const {
    const bool scalar = node.kind == NodeKind::scalar;
    if (!rule.words.empty()) {
      if (scalar && std::ranges::count(rule.words, node.text) > 0) return node.text;
      fail_at(node.location, path,
              message("expected one of ", comma_list(rule.words), ", got ", describe(node),
                      suggestion(node.text, rule.words)));
    }
    if (!scalar) mismatch(node, path, "a text");
    if (!rule.pattern.empty() && !matches(node.text, rule.pattern)) {
      const std::string hint = rule.hint != nullptr ? rule.hint(node.text) : "";
      fail_at(node.location, path, message("expected ", rule.form, ", got ", describe(node), hint));
    }
    return rule.path ? without_tilde() : node.text;
  }

  KeyValue operator()(const std::vector<std::int64_t>&) const { return list<std::int64_t>("an integer"); }
  KeyValue operator()(const std::vector<double>&) const { return list<double>("a number"); }
  KeyValue operator()(const std::vector<std::string>&) const { return list<std::string>("a text"); }

 private:
  template <class T>
  T number(const ConfigNode& scalar, std::string_view what) const {
    T parsed{};
    if (!parse_number(scalar, parsed) || !in_range(rule, static_cast<double>(parsed))) {
      mismatch(scalar, path, expectation(what, rule));
    }
    return parsed;
  }

  template <class T>
  std::vector<T> list(std::string_view what) const {
    constexpr bool kTexts = std::is_same_v<T, std::string>;
    if (rule.single && node.kind == NodeKind::scalar) {
      if constexpr (kTexts) {
        return {node.text};
      } else {
        if (!rule.word.empty() && node.text == rule.word) return {-1};
        return {number<T>(node, rule.word.empty() ? what : message('\'', rule.word, "' or ", what))};
      }
    }
    if (node.kind != NodeKind::list)
      mismatch(node, path,
               message("a list of ", what.substr(what.find(' ') + 1), "s, as ", kTexts ? "[a, b]" : "[1, 2]"));
    std::vector<T> values;
    for (const ConfigNode& item : node.items) {
      if constexpr (kTexts) {
        if (item.kind != NodeKind::scalar) mismatch(item, path, what);
        values.push_back(item.text);
      } else {
        values.push_back(number<T>(item, what));
      }
    }
    if (!accepts(rule, values)) {
      const bool bounded = std::isfinite(rule.max_items);
      fail_at(node.location, path,
              message("expected ", rule.min_items, bounded ? message(" to ", rule.max_items) : " or more",
                      " values, got ", values.size()));
    }
    return values;
  }

  /// Expands ~/ to the user's home, as in a shell; anything else that begins with ~ is probably a typing error.
  std::string without_tilde() const {
    const std::string& text = node.text;
    if (!text.starts_with('~')) return text;
    if (text.size() > 1 && text[1] != '/') {
      fail_at(node.location, path,
              message("expected a path, got '", text, "': '~' stands for a home folder as '~/' only"));
    }
    const char* home = std::getenv("HOME");
    if (home == nullptr) {
      fail_at(node.location, path, message("'", text, "' needs the environment variable HOME, which is not set"));
    }
    return home + text.substr(1);
  }
};

NodeKind shape_of(const Key& key) {
  if (key.kind == Key::Kind::section) return NodeKind::map;
  const bool list = key.kind == Key::Kind::list || std::holds_alternative<std::vector<std::int64_t>>(key.value) ||
                    std::holds_alternative<std::vector<double>>(key.value) ||
                    std::holds_alternative<std::vector<std::string>>(key.value);
  return list ? NodeKind::list : NodeKind::scalar;
}

bool has_shape(const std::vector<Key>& keys, std::string_view path, NodeKind shape) {
  return std::ranges::any_of(keys, [&](const Key& key) { return key.path == path && shape_of(key) == shape; });
}

/// The value of the key that decides which other keys a section has, and its entry if it is given.
std::pair<std::string, const ConfigNode::Entry*> chosen(const Key& choice, const ConfigNode& map) {
  const ConfigNode::Entry* given = map.find(std::string_view(choice.path).substr(choice.path.rfind('.') + 1));
  return {given != nullptr ? given->value.text : std::get<std::string>(choice.value), given};
}

/// The keys that a section may have, without those of nested sections.
std::vector<Key> keys_in(const std::vector<Key>& known, const std::string& section, const ConfigNode& map) {
  const Key* choice = section.empty() ? nullptr : choice_in(known, section);
  const std::string prefix = section.empty() ? "" : section + '.';
  std::vector<Key> keys;
  for (const Key& key : known) {
    const bool direct = key.path.starts_with(prefix) && key.path.find('.', prefix.size()) == std::string::npos;
    if (!direct) continue;
    if (key.only_for.empty() || std::ranges::count(key.only_for, chosen(*choice, map).first) > 0) keys.push_back(key);
  }
  return keys;
}

/// The item's name, or its index.
std::string name_of_item(const ConfigNode& list, std::size_t index) {
  const ConfigNode::Entry* name = list.items[index].find("name");
  return name != nullptr && !name->value.text.empty() ? name->value.text : std::to_string(index);
}

/// Throws if a key of the map is unknown, has no effect, or holds a value where a section belongs.
/// `path` is in the form of Key::path, `shown` in the form of messages.
void check_keys(const std::vector<Key>& known, const ConfigNode& map, const std::string& path,
                const std::string& shown) {
  for (const ConfigNode::Entry& entry : map.entries) {
    const Key* key = find_key(known, joined(path, entry.key));
    const bool rejected = key != nullptr && key->kind == Key::Kind::rejected;
    if (rejected) fail_at(entry.location, joined(shown, entry.key), key->text);
  }
  for (const ConfigNode::Entry& entry : map.entries) {
    const ConfigNode& value = entry.value;
    const std::string here = joined(path, entry.key), named = joined(shown, entry.key);
    const Key* key = find_key(known, here);
    if (key == nullptr || entry.key.find('.') != std::string::npos) {  // "train.epochs" is a path, not a key
      fail_at(entry.location, named, "unknown key" + key_suggestion(here, entry.key, keys_in(known, path, map)));
    }
    if (!key->only_for.empty()) {
      const Key& choice = *choice_in(known, path);
      const auto [name, given] = chosen(choice, map);
      if (given == nullptr && map.find(choice.rule.instead) != nullptr) {
        fail_at(entry.location, named, message("has no meaning together with '", choice.rule.instead, '\''));
      }
      const bool valid = std::ranges::count(choice.rule.words, name) > 0;  // if not, that is the error to report
      const std::string what = path.substr(path.rfind('.') + 1);
      if (valid && std::ranges::count(key->only_for, name) == 0) {
        fail_at(entry.location, named,
                message("has no meaning for the ",
                        what == "data" ? "dataset"
                        : what == "*"  ? "type"
                                       : what,
                        " '", name, "'"));
      }
    }
    if (key->kind == Key::Kind::list) {
      const bool lacks = value.items.empty() && key->rule.min_items > 0;
      if (value.kind != NodeKind::list || lacks) mismatch(value, named, "a list of sections");
      for (std::size_t i = 0; i < value.items.size(); ++i) {
        if (value.items[i].kind != NodeKind::map) mismatch(value.items[i], message(named, '.', i), "a section");
        check_keys(known, value.items[i], here + ".*", joined(named, name_of_item(value, i)));
      }
    } else if (value.kind == NodeKind::map && has_shape(known, here, NodeKind::map)) {
      check_keys(known, value, here, named);
    } else if (key->kind == Key::Kind::section && value.kind != NodeKind::null) {
      const std::string name = here + ".name";
      fail_at(value.location, named,
              message("expected a section, got ", describe(value),
                      find_key(known, name) != nullptr ? " (did you mean '" + name + "'?)" : ""));
    }
  }
}

/// Adds the keys noted under the assumption that the key `choice` is `word`.
void merge(std::vector<Key>& all, const std::vector<Key>& noted, const Key& choice, const std::string& word) {
  const std::string section = choice.path.substr(0, choice.path.rfind('.'));
  auto at = all.begin();
  for (const Key& key : noted) {
    const auto same = [&](const Key& other) { return other.path == key.path && shape_of(other) == shape_of(key); };
    auto found = std::ranges::find_if(all, same);
    if (found == all.end()) {
      const auto absent = [&](const Key& other) { return std::ranges::count(noted, other.path, &Key::path) == 0; };
      found = all.insert(std::find_if_not(at, all.end(), absent), key);
    } else if (found->value != key.value && key.path != choice.path) {
      found->defaults.emplace_back(word, key.value);
    }
    at = found + 1;
    if (found->path.starts_with(section + '.')) found->only_for.push_back(word);
  }
}

}  // namespace

const Key* find_key(const std::vector<Key>& keys, std::string_view path) {
  const auto found = std::ranges::find(keys, path, &Key::path);
  return found == keys.end() ? nullptr : &*found;
}

const Key* choice_in(const std::vector<Key>& keys, std::string_view section) {
  const Key* type = find_key(keys, joined(section, "type"));
  return type != nullptr ? type : find_key(keys, joined(section, "name"));
}

bool accepts(const KeyRule& rule, const KeyValue& value) {
  const auto sized = [&](const auto& list) {
    const auto size = static_cast<double>(list.size());
    return size >= rule.min_items && size <= rule.max_items;
  };
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) return sized(*integers);
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) return sized(*numbers);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) return sized(*texts);
  if (const auto* text = std::get_if<std::string>(&value)) {
    return !text->empty() || (rule.pattern.empty() && !rule.required);
  }
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    return (*integer == 0 && !rule.word.empty()) || in_range(rule, static_cast<double>(*integer));
  }
  if (const auto* number = std::get_if<double>(&value)) return in_range(rule, *number);
  return true;
}

bool Keys::reads() const { return pass_->known != nullptr; }

KeyValue Keys::visit(std::string_view name, KeyValue value, const KeyRule& rule, std::string_view text) const {
  const std::string path = joined(path_, name);
  if (!reads()) {
    if (path == pass_->assumed_path) value = std::string(pass_->assumed_word);
    pass_->noted.push_back({.path = path, .value = value, .rule = rule, .text = std::string(text)});
    return value;
  }
  const ConfigNode::Entry* entry = map_ != nullptr ? map_->find(name) : nullptr;
  const std::string shown = joined(shown_, name);
  const bool instead = !rule.instead.empty() && map_ != nullptr && map_->find(rule.instead) != nullptr;
  if (entry == nullptr) {
    if (rule.required && !instead) {
      fail_at(location_, shown,
              rule.instead.empty() ? "this key is required" : message("this key or '", rule.instead, "' is required"));
    }
    return value;
  }
  if (instead) fail_at(entry->location, shown, message("has no meaning together with '", rule.instead, '\''));
  const ConfigNode& node = entry->value;
  const bool empty = node.kind == NodeKind::map && node.entries.empty();
  const bool other = node.kind != shape_of({.value = value}) && has_shape(*pass_->known, path, node.kind) && !empty;
  return other ? value : std::visit(ValueParser{node, shown, rule}, value);
}

Keys Keys::section(std::string_view name, std::string_view text, std::vector<std::string_view> synonyms) const {
  const std::string path = joined(path_, name), shown = joined(shown_, name);
  if (!reads()) {
    pass_->noted.push_back({.kind = Key::Kind::section,
                            .path = path,
                            .rule = {.synonyms = std::move(synonyms)},
                            .text = std::string(text)});
  }
  const ConfigNode::Entry* entry = map_ != nullptr ? map_->find(name) : nullptr;
  if (entry == nullptr) return {*pass_, nullptr, location_, path, shown};
  return {*pass_, &entry->value, entry->value.location, path, shown};
}

std::vector<Keys> Keys::list_items(std::string_view name, const KeyRule& rule, std::string_view text,
                                   std::size_t items) const {
  const std::string path = joined(path_, name);
  std::vector<Keys> sections;
  if (reads()) {
    const ConfigNode::Entry* entry = map_ != nullptr ? map_->find(name) : nullptr;
    if (entry == nullptr) return {};
    const ConfigNode& list = entry->value;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const ConfigNode& item = list.items[i];
      sections.push_back(
          {*pass_, &item, item.location, path + ".*", joined(joined(shown_, name), name_of_item(list, i))});
    }
    return sections;
  }
  pass_->noted.push_back({.kind = Key::Kind::list, .path = path, .rule = rule, .text = std::string(text)});
  for (std::size_t i = 0; i < items; ++i) sections.push_back({*pass_, nullptr, "", message(path, '.', i), ""});
  if (items == 0) sections.push_back({*pass_, nullptr, "", path + ".*", ""});
  return sections;
}

void Keys::reject(std::string_view name, std::string_view why) const {
  if (reads()) return;
  pass_->noted.push_back({.kind = Key::Kind::rejected, .path = joined(path_, name), .text = std::string(why)});
}

void Keys::check(std::string_view name, bool holds, std::string_view what) const {
  if (!reads() || holds) return;
  const ConfigNode::Entry* entry = map_ != nullptr ? map_->find(name) : nullptr;
  fail_at(entry != nullptr ? entry->value.location : location_, joined(shown_, name), what);
}

std::vector<Key> note_keys(const std::function<void(const Keys&)>& declare, std::string_view path,
                           std::string_view word) {
  KeyPass pass{.assumed_path = path, .assumed_word = word};
  declare(Keys(pass, nullptr, "", "", ""));
  return std::move(pass.noted);
}

std::vector<Key> all_keys(const std::function<void(const Keys&)>& declare) {
  std::vector<Key> all = note_keys(declare);
  for (const Key& choice : std::vector(all)) {
    const std::string section = choice.path.substr(0, choice.path.find_last_of('.') + 1);
    const Key* decisive = section.empty() ? nullptr : choice_in(all, section.substr(0, section.size() - 1));
    if (decisive == nullptr || decisive->path != choice.path || choice.rule.words.empty()) continue;
    for (const std::string& word : choice.rule.words) merge(all, note_keys(declare, choice.path, word), choice, word);
    for (Key& key : all) {
      if (key.path.starts_with(section) && key.only_for.size() == choice.rule.words.size()) key.only_for.clear();
    }
  }
  return all;
}

void read_keys(const ConfigNode& tree, const std::vector<Key>& known, const std::function<void(const Keys&)>& declare) {
  check_keys(known, tree, "", "");
  KeyPass pass{.known = &known};
  declare(Keys(pass, &tree, tree.location, "", ""));
}

}  // namespace braid
