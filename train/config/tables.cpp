// The tables of keys in docs/configuration.md.

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/text/text.h"
#include "train/config/keys.h"

namespace braid {

namespace {

std::string code(std::string_view text) { return message('`', text, '`'); }

std::string code_list(const std::vector<std::string>& words) { return comma_list(words, ", ", code); }

/// "1 to 64", "integer ≥ 1", "0 ≤ x < 1". Leaves out a limit that only catches typing errors.
std::string interval(const KeyRule& rule, const std::string& type) {
  const auto text = [](double value) {
    return value == std::floor(value) ? std::to_string(std::llround(value)) : message(value);
  };
  const bool open = std::isfinite(rule.above), unlimited = rule.max >= KeyRule::kMaxCount && std::isinf(rule.below);
  if (!open && std::isinf(rule.min)) return type;
  const std::string low = text(open ? rule.above : rule.min);
  if (unlimited) return message(type, open ? " > " : " ≥ ", low);
  if (!open && std::isfinite(rule.max)) return message(low, " to ", text(rule.max));
  const std::string high = std::isfinite(rule.max) ? "≤ " + text(rule.max) : "< " + text(rule.below);
  return message(low, open ? " < x " : " ≤ x ", high);
}

/// The values that a key accepts.
struct AcceptedText {
  const KeyRule& rule;

  std::string operator()(bool) const { return "true, false"; }
  std::string operator()(std::uint64_t) const { return "integer ≥ 0"; }
  std::string operator()(std::int64_t) const {
    return interval(rule, "integer") + (rule.word.empty() ? "" : ", " + code(rule.word));
  }
  std::string operator()(double) const { return interval(rule, "number"); }
  std::string operator()(const std::string&) const {
    constexpr std::size_t kMaxListed = 10;
    if (!rule.words.empty()) return rule.words.size() > kMaxListed ? "name" : code_list(rule.words);
    return rule.path ? "path" : "text";
  }
  std::string operator()(const std::vector<std::int64_t>&) const { return list("integers"); }
  std::string operator()(const std::vector<double>&) const { return list("numbers"); }
  std::string operator()(const std::vector<std::string>&) const {
    return rule.single ? "text, or a list" : "list of texts";
  }

 private:
  std::string list(const std::string& type) const {
    const std::string range = interval(rule, type);
    if (rule.single) return message(range, rule.word.empty() ? "" : ", " + code(rule.word), ", or a list");
    return message("list of ", range.starts_with(type) ? "" : type + ", ", range);
  }
};

std::string default_of(const Key& key) {
  if (!key.rule.instead.empty()) return message("required, or ", code(key.rule.instead));
  if (key.rule.required) return "required";
  if (key.kind != Key::Kind::value || !accepts(key.rule, key.value)) return "none";
  std::string cell = to_yaml(key.rule, key.value);
  if (const auto* text = std::get_if<std::string>(&key.value); text != nullptr && !text->empty()) cell = *text;
  if (cell.find_first_of("0123456789") != 0) cell = code(cell);
  for (const auto& [word, value] : key.defaults) cell += message(", ", to_yaml(key.rule, value), " for ", code(word));
  return cell;
}

/// "`adam`, `adamw` only: ", if that is short.
std::string only_for(const Key& key, const std::vector<std::string>& names) {
  constexpr std::size_t kMaxNames = 3;
  if (key.only_for.empty()) return "";
  if (key.only_for.size() <= kMaxNames) return code_list(key.only_for) + " only: ";
  std::vector<std::string> others = names;
  std::erase_if(others, [&](const std::string& name) { return std::ranges::count(key.only_for, name) > 0; });
  return others.size() <= kMaxNames ? "all but " + code_list(others) + ": " : "";
}

std::string row(const Key& key, const std::vector<Key>& keys) {
  const std::size_t dot = key.path.rfind('.'), item = key.path.rfind("*.");
  const Key* choice = dot == std::string::npos ? nullptr : choice_in(keys, key.path.substr(0, dot));
  const bool list = key.kind == Key::Kind::list;
  const std::string values = list ? "list of sections" : std::visit(AcceptedText{key.rule}, key.value);
  const std::string path = key.path.substr(item == std::string::npos ? 0 : item + 2);
  return message("| ", code(path), " | ", key.rule.unit, key.rule.unit.empty() ? "" : ", ", values, " | ",
                 default_of(key), " | ", choice == nullptr ? "" : only_for(key, choice->rule.words), key.text, " |\n");
}

struct TableOfKeys {
  std::string name, rows;
};

std::string section_of(const std::string& path) {
  if (const std::size_t list = path.find(".*."); list != std::string::npos) {  // of its items
    const std::size_t begin = path.rfind('.', list - 1) + 1;
    return path.substr(begin, list - begin);
  }
  const std::size_t dot = path.find('.');
  const bool of_session = path.starts_with("streams.") || path.starts_with("parallel.");
  return dot == std::string::npos || of_session ? "top level" : path.substr(0, dot);
}

}  // namespace

std::string config_tables() {
  const auto [single, jobs, pathnet] = config_kinds();
  std::vector<TableOfKeys> tables;
  std::set<std::string> shown;
  const auto add = [&](const std::vector<Key>& keys, const std::string& kind) {
    for (const Key& key : keys) {
      if (key.kind == Key::Kind::section || key.kind == Key::Kind::rejected) continue;
      const std::string text = row(key, keys), name = kind.empty() ? section_of(key.path) : kind;
      if (!shown.insert(text).second) continue;  // as in a config of a single model
      auto table = std::ranges::find(tables, name, &TableOfKeys::name);
      if (table == tables.end()) table = tables.insert(table, {name, ""});
      table->rows += text;
    }
  };
  add(single, "");
  add(jobs, "jobs");
  add(pathnet, "pathnet");
  std::string out;
  for (const TableOfKeys& table : tables) {
    out += message("<!-- keys: ", table.name, " -->\n| key | values | default | meaning |\n|---|---|---|---|\n",
                   table.rows, "<!-- end of keys -->\n");
  }
  return out;
}

}  // namespace braid
