// Configs written back as YAML.

#include <algorithm>
#include <charconv>
#include <concepts>
#include <iomanip>

#include "core/base/error.h"
#include "core/base/text_stream.h"
#include "core/text/text.h"
#include "train/config/keys.h"

namespace braid {

namespace {

/// A value as YAML that reads as the same value again.
struct ValueWriter {
  const KeyRule& rule;

  std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  std::string operator()(double number) const {
    char buffer[32];
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};  // the shortest decimal
  }
  std::string operator()(std::integral auto count) const {
    return count == 0 && !rule.word.empty() ? std::string(rule.word) : std::to_string(count);
  }
  std::string operator()(const std::string& text) const {
    if (!rule.words.empty()) return text;
    TextStream out;
    out << '"' << std::hex << std::setfill('0');
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < ' ' || byte == 0x7f) {
        out << "\\x" << std::setw(2) << int{byte};
      } else {
        out << (c == '"' || c == '\\' ? "\\" : "") << c;
      }
    }
    return out.str() + '"';
  }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    static const KeyRule plain;
    const ValueWriter one{rule.single ? plain : rule};  // there a word is not 0, but -1, and alone
    if (rule.single && values.size() == 1) {
      if constexpr (std::is_same_v<T, std::int64_t>) {
        if (!rule.word.empty() && values[0] == -1) return std::string(rule.word);
      }
      return one(values[0]);
    }
    return '[' + comma_list(values, ", ", one) + ']';
  }
};

}  // namespace

std::string to_yaml(const KeyRule& rule, const KeyValue& value) { return std::visit(ValueWriter{rule}, value); }

std::string to_yaml(const std::vector<Key>& keys) {
  std::string out;
  std::vector<std::string> open;  // the sections that contain the last line
  bool item_begins = false;
  const auto begin_line = [&](std::size_t depth) {
    if (!item_begins) out.append(2 * depth, ' ');
    item_begins = false;
  };
  for (const Key& key : keys) {
    if (key.kind != Key::Kind::value || !accepts(key.rule, key.value)) continue;
    if (key.path.find('*') != std::string::npos) continue;  // a key of an empty list's items
    std::vector<std::string> parts = split_text(key.path, '.');
    const std::string name = parts.back();
    parts.pop_back();
    const auto both = std::ranges::mismatch(parts, open);
    for (auto part = both.in1; part != parts.end(); ++part) {
      begin_line(static_cast<std::size_t>(part - parts.begin()));
      item_begins = part->find_first_not_of("0123456789") == std::string::npos;
      out += item_begins ? "- " : *part + ":\n";
    }
    begin_line(parts.size());
    out += message(name, ": ", to_yaml(key.rule, key.value), '\n');
    open = std::move(parts);
  }
  return out;
}

}  // namespace braid
