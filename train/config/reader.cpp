#include "train/config/reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>
#include <type_traits>

#include "core/error.h"
#include "core/suggestion.h"
#include "train/config/keys.h"

namespace braid {

namespace {

const ConfigNode kEmptyMap{.kind = ConfigNode::Kind::map};

/// What stands there, short enough for a message.
std::string describe(const ConfigNode& node) {
  constexpr std::size_t kMaxLength = 40;
  switch (node.kind) {
    case ConfigNode::Kind::null: return "nothing";
    case ConfigNode::Kind::list: return node.items.empty() ? "an empty list" : "a list";
    case ConfigNode::Kind::map: return "a map";
    case ConfigNode::Kind::scalar: break;
  }
  std::string text = node.text.substr(0, kMaxLength);
  std::ranges::replace(text, '\n', ' ');
  if (node.text.size() > kMaxLength) text += "…";
  return message(node.quoted ? "the quoted text '" : "'", text, "'");
}

/// "an integer of at least 1", "a number in [0, 1)".
std::string expectation(std::string_view what, const Range& range) {
  std::ostringstream out;
  out << std::setprecision(std::numeric_limits<double>::digits10) << what;  // large integers in full
  if (std::isfinite(range.min) && std::isfinite(range.max)) {
    out << " in " << (range.above_min ? '(' : '[') << range.min << ", " << range.max << (range.below_max ? ')' : ']');
  } else if (std::isfinite(range.min)) {
    out << (range.above_min ? " above " : " of at least ") << range.min;
  }
  return out.str();
}

bool contains(const Range& range, double value) {
  return (range.above_min ? value > range.min : value >= range.min) &&
         (range.below_max ? value < range.max : value <= range.max);
}

/// Skips digits; the count.
std::size_t skip_digits(std::string_view text, std::size_t& at) {
  const std::size_t start = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  return at - start;
}

/// JSON's grammar: -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?
bool is_number(std::string_view text, bool integral) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const bool leading_zero = text.substr(at).starts_with('0');
  const std::size_t digits = skip_digits(text, at);
  if (digits == 0 || (leading_zero && digits > 1)) return false;
  if (integral) return at == text.size();
  if (at < text.size() && text[at] == '.') {
    if (skip_digits(text, ++at) == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (skip_digits(text, at) == 0) return false;
  }
  return at == text.size();
}

/// False unless the whole text is a plain scalar that T can hold.
template <class T>
bool parse_number(const ConfigNode& node, T& value) {
  if (node.kind != ConfigNode::Kind::scalar || node.quoted || !is_number(node.text, std::is_integral_v<T>))
    return false;
  const auto [end, error] = std::from_chars(node.text.data(), node.text.data() + node.text.size(), value);
  return error == std::errc{};
}

}  // namespace

ConfigSection::ConfigSection(const ConfigNode& node, std::string path, std::string location)
    : node_(node), path_(std::move(path)), location_(std::move(location)) {}

std::string ConfigSection::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : message(path_, '.', key);
}

void ConfigSection::fail_at(const std::string& location, std::string_view key, std::string_view what) const {
  const std::string path = path_of(key);
  // An override names the path itself.
  if (location.starts_with("--set " + path + "=")) throw ConfigError(message(location, ": ", what));
  throw ConfigError(message(location, ": ", path, ": ", what));
}

void ConfigSection::fail(std::string_view key, std::string_view what) const {
  const ConfigNode::Entry* entry = node_.find(key);
  fail_at(entry != nullptr ? entry->value.location : location_, key, what);
}

void ConfigSection::mismatch(std::string_view key, const ConfigNode& value, std::string_view expected) const {
  fail_at(value.location, key, message("expected ", expected, ", got ", describe(value)));
}

const ConfigNode* ConfigSection::take(std::string_view key) {
  known_.emplace_back(key);
  const ConfigNode::Entry* entry = node_.find(key);
  return entry != nullptr ? &entry->value : nullptr;
}

std::int64_t ConfigSection::integer(std::string_view key, const ConfigNode& value, const Range& range) const {
  std::int64_t parsed = 0;
  if (!parse_number(value, parsed) || !contains(range, static_cast<double>(parsed))) {
    mismatch(key, value, expectation("an integer", range));
  }
  return parsed;
}

double ConfigSection::number(std::string_view key, const ConfigNode& value, const Range& range) const {
  double parsed = 0;
  if (!parse_number(value, parsed) || !contains(range, parsed)) mismatch(key, value, expectation("a number", range));
  return parsed;
}

void ConfigSection::read(std::string_view key, bool& target) {
  const ConfigNode* value = take(key);
  if (value == nullptr) return;
  const bool valid =
      value->kind == ConfigNode::Kind::scalar && !value->quoted && (value->text == "true" || value->text == "false");
  if (!valid) mismatch(key, *value, "true or false");
  target = value->text == "true";
}

void ConfigSection::read(std::string_view key, int& target, const Range& range) {
  std::int64_t wide = target;
  read(key, wide, {.min = range.min, .max = std::min<double>(range.max, std::numeric_limits<int>::max())});
  target = static_cast<int>(wide);
}

void ConfigSection::read(std::string_view key, std::int64_t& target, const Range& range) {
  if (const ConfigNode* value = take(key); value != nullptr) target = integer(key, *value, range);
}

void ConfigSection::read(std::string_view key, std::uint64_t& target) {
  if (const ConfigNode* value = take(key); value != nullptr && !parse_number(*value, target)) {
    mismatch(key, *value, "an integer from 0 to 2^64 - 1");
  }
}

void ConfigSection::read(std::string_view key, double& target, const Range& range) {
  if (const ConfigNode* value = take(key); value != nullptr) target = number(key, *value, range);
}

void ConfigSection::read(std::string_view key, std::string& target) {
  const ConfigNode* value = take(key);
  if (value == nullptr) return;
  if (value->kind != ConfigNode::Kind::scalar) mismatch(key, *value, "a text");
  target = value->text;
}

void ConfigSection::read(std::string_view key, std::string& target, std::span<const std::string> choices) {
  const ConfigNode* value = take(key);
  if (value == nullptr) return;
  if (value->kind == ConfigNode::Kind::scalar && std::ranges::find(choices, value->text) != choices.end()) {
    target = value->text;
    return;
  }
  fail_at(
      value->location, key,
      message("expected one of ", comma_list(choices), ", got ", describe(*value), suggestion(value->text, choices)));
}

void ConfigSection::read(std::string_view key, std::vector<double>& target, const Range& range) {
  const ConfigNode* value = take(key);
  if (value == nullptr) return;
  if (value->kind != ConfigNode::Kind::list) mismatch(key, *value, "a list of numbers, as [1, 2]");
  target.clear();
  for (const ConfigNode& item : value->items) target.push_back(number(key, item, range));
}

void ConfigSection::read(std::string_view key, std::vector<std::int64_t>& target, const Range& range) {
  const ConfigNode* value = take(key);
  if (value == nullptr) return;
  if (value->kind != ConfigNode::Kind::list) mismatch(key, *value, "a list of integers, as [1, 2]");
  target.clear();
  for (const ConfigNode& item : value->items) target.push_back(integer(key, item, range));
}

void ConfigSection::read_or_word(std::string_view key, int& target, const Range& range, std::string_view word) {
  const ConfigNode* value = take(key);
  if (value == nullptr) return;
  if (value->kind == ConfigNode::Kind::scalar && value->text == word) {
    target = 0;
    return;
  }
  std::int64_t parsed = 0;
  if (!parse_number(*value, parsed) || !contains(range, static_cast<double>(parsed))) {
    mismatch(key, *value, message('\'', word, "' or ", expectation("an integer", range)));
  }
  target = static_cast<int>(parsed);
}

ConfigSection ConfigSection::section(std::string_view key) {
  const ConfigNode* value = take(key);
  if (value == nullptr || value->kind == ConfigNode::Kind::null) {
    return {kEmptyMap, path_of(key), value != nullptr ? value->location : location_};
  }
  if (value->kind != ConfigNode::Kind::map) {
    const std::string name = path_of(key) + ".name";
    const bool named = std::ranges::count(config_keys(), name) > 0;
    fail_at(value->location, key,
            message("expected a section, got ", describe(*value), named ? " (did you mean '" + name + "'?)" : ""));
  }
  return {*value, path_of(key), value->location};
}

std::vector<ConfigSection> ConfigSection::sections(std::string_view key) {
  const ConfigNode* list = take(key);
  const ConfigNode& value = list != nullptr ? *list : kEmptyMap;
  if (value.items.empty()) mismatch(key, value, "a list of sections");
  std::vector<ConfigSection> sections;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const ConfigNode& item = value.items[i];
    if (item.kind != ConfigNode::Kind::map) mismatch(message(key, '.', i), item, "a section");
    const ConfigNode::Entry* name = item.find("name");
    const std::string path = name != nullptr && !name->value.text.empty() ? name->value.text : std::to_string(i);
    sections.push_back({item, path_of(message(key, '.', path)), item.location});
  }
  return sections;
}

bool ConfigSection::is(std::string_view key, ConfigNode::Kind kind) const {
  const ConfigNode::Entry* entry = node_.find(key);
  return entry != nullptr && entry->value.kind == kind;
}

void ConfigSection::require(std::string_view key) { required_.emplace_back(key); }

void ConfigSection::reject(std::string_view key, std::string_view reason) {
  const ConfigNode::Entry* entry = node_.find(key);
  if (entry != nullptr) fail_at(entry->location, key, reason);
}

void ConfigSection::finish() const {
  for (const ConfigNode::Entry& entry : node_.entries) {
    if (std::ranges::find(known_, entry.key) != known_.end()) continue;
    fail_at(entry.location, entry.key, "unknown key" + key_suggestion(path_of(entry.key), entry.key, known_));
  }
  for (const std::string& key : required_) {
    if (!has(key)) fail_at(location_, key, "this key is required");
  }
}

}  // namespace braid
