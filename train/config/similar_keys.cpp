#include "train/config/similar_keys.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/text/suggestion.h"
#include "train/config/keys.h"

namespace braid {
namespace {

/// The keys of all kinds of configs, without those of jobs, which single configs have too.
const std::vector<Key>& declared_keys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all;
    const auto [single, jobs, pathnet] = config_kinds();
    for (const std::vector<Key>* kind : {&single, &jobs, &pathnet}) {
      for (const Key& key : *kind) {
        const bool new_one = std::ranges::find(all, key.path, &Key::path) == all.end();
        if (new_one && key.kind != Key::Kind::rejected && key.path.find('*') == std::string::npos) all.push_back(key);
      }
    }
    return all;
  }();
  return keys;
}

std::string normalised(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }

template <class Condition>
std::vector<std::string> keys_if(const Condition& holds) {
  std::vector<std::string> keys;
  for (const Key& key : declared_keys()) {
    if (holds(key)) keys.push_back(key.path);
  }
  return keys;
}

std::vector<std::string> keys_named(std::string_view name) {
  return keys_if([&](const Key& key) { return last_part(key.path) == name; });
}

/// The keys that other frameworks call by the name; or nothing.
std::vector<std::string> synonyms(std::string_view name) {
  return keys_if([text = normalised(name)](const Key& key) { return std::ranges::count(key.rule.synonyms, text) > 0; });
}

/// " (did you mean 'train.batch_size' or 'eval.batch_size'?)", without the key at `path`.
std::string did_you_mean(const std::vector<std::string>& keys, std::string_view path) {
  std::string list;
  for (const std::string& key : keys) {
    if (key == path) continue;
    const bool top = key.find('.') == std::string::npos && path.find('.') != std::string_view::npos;
    list += message(list.empty() ? "'" : " or '", key, '\'', top ? " at the top level" : "");
  }
  return list.empty() ? "" : message(" (did you mean ", list, "?)");
}

}  // namespace

std::vector<std::string> config_keys() {
  return keys_if([](const Key&) { return true; });
}

std::vector<std::string> similar_keys(std::string_view name) {
  const auto renamed = keys_if([&](const Key& key) { return !name.empty() && key.rule.formerly == name; });
  if (!renamed.empty()) return renamed;
  if (const auto keys = synonyms(name); !keys.empty()) return keys;
  const std::string text = normalised(last_part(name));
  if (const auto keys = keys_named(text); !keys.empty()) return keys;
  std::vector<std::string> names;
  for (const Key& key : declared_keys()) names.emplace_back(last_part(key.path));
  return keys_named(nearest(text, names));
}

std::string key_suggestion(std::string_view path, std::string_view key, std::span<const Key> here) {
  for (const Key& one : declared_keys()) {
    if (one.rule.formerly == path) return message(" (it is now called '", one.path, "')");
  }
  std::vector<std::string> known;
  for (const Key& one : here) {
    known.emplace_back(last_part(one.path));
    if (one.rule.formerly == path) return message(" (it is now called '", known.back(), "')");
    if (std::ranges::count(one.rule.synonyms, normalised(key)) > 0)
      return message(" (did you mean '", known.back(), "'?)");
  }
  if (const auto keys = synonyms(key); !keys.empty()) {
    const std::string name(last_part(keys.front()));
    const bool too = name != "name" && std::ranges::count(known, name) > 0;  // many sections have a name
    return too ? message(" (did you mean '", name, "'?)") : did_you_mean(keys, path);
  }
  const std::string near = suggestion(normalised(key), known);
  return near.empty() ? did_you_mean(similar_keys(key), path) : near;
}

}  // namespace braid
