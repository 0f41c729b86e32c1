#include "core/text_table.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace braid {
namespace {

/// Characters, not bytes, of UTF-8.
std::size_t length(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string text_table(const std::vector<std::vector<std::string>>& cells, std::string_view alignment,
                       std::string_view indent) {
  std::vector<std::size_t> widths(alignment.size());
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], length(row[i]));
  }
  std::string text;
  for (const auto& row : cells) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - length(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (alignment[i] == 'r' ? padding + row[i] : row[i] + padding);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

std::string milliseconds(double seconds) {
  const double value = 1e3 * seconds;
  return fixed(value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3) + " ms";
}

}  // namespace braid
