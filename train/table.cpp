#include "train/table.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace braid {

void write_table(std::ostream& out, const std::vector<std::vector<std::string>>& cells, std::size_t first_number) {
  std::vector<std::size_t> widths(cells.front().size());
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : cells) {
    std::ostringstream line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line << (i == 0 ? "" : "  ") << (i < first_number ? std::left : std::right)
           << std::setw(static_cast<int>(widths[i])) << row[i];
    }
    const std::string text = line.str();
    out << text.substr(0, text.find_last_not_of(' ') + 1) << '\n';
  }
}

}  // namespace braid
