#pragma once
// Tables for people.

#include <ostream>
#include <string>
#include <vector>

namespace braid {

/// Columns as wide as their widest cell, the numbers from `first_number` on to the right.
void write_table(std::ostream& out, const std::vector<std::vector<std::string>>& cells, std::size_t first_number);

}  // namespace braid
