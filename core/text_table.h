#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace braid {

/// Lines with columns as wide as their widest cell, two spaces apart. `alignment` has a letter for every column: l for
/// left, r for right. Every line begins with `indent`.
std::string text_table(const std::vector<std::vector<std::string>>& cells, std::string_view alignment,
                       std::string_view indent = "");

}  // namespace braid
