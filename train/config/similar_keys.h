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

/// The full paths of the keys that the name may mean. The first of these rules that finds any decides: a key was
/// renamed from it; other frameworks use it for a key, or a key's path ends with it; a key's name is similar. Case, '-'
/// and '_' do not matter.
std::vector<std::string> similar_keys(std::string_view name);

/// " (did you mean 'optimizer.lr'?)" for a key that is not among those `known` in its section; or nothing. `path` is
/// the full path of the key.
std::string key_suggestion(std::string_view path, std::string_view key, std::span<const Key> known);

}  // namespace braid
