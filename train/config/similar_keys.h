#pragma once
// Suggestions for unknown keys.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

struct Key;

/// The full paths of the keys of all configs, for example "train.epochs".
std::vector<std::string> config_keys();

/// The full path of the key that had this name before; else those of the keys that other frameworks call by it or that
/// end with it, else those with a similar name. Case, '-' and '_' do not matter.
std::vector<std::string> similar_keys(std::string_view name);

/// " (did you mean 'optimizer.lr'?)" for a key that is not among those `known` in its section; or nothing. `path` is
/// the full path of the key.
std::string key_suggestion(std::string_view path, std::string_view key, std::span<const Key> known);

}  // namespace braid
