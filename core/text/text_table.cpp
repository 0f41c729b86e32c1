#include "core/text/text_table.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>

#include "core/base/text_stream.h"
#include "core/text/text.h"

namespace braid {

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  const std::string line_break = '\n' + std::string(indent, ' ');
  std::string result;
  std::size_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\n') {
      result += line_break;
      column = indent;
      ++at;
      continue;
    }
    const std::size_t word = std::min(text.find_first_not_of(' ', at), text.size());
    const std::size_t end = std::min(text.find_first_of(" \n", word), text.size());
    std::string_view piece = text.substr(at, end - at);  // a word and the blanks before it
    if (column > indent && column + utf8_length(piece) > width) {
      result += line_break;
      column = indent;
      piece.remove_prefix(word - at);
    }
    result += piece;
    column += utf8_length(piece);
    at = end;
  }
  return result;
}

std::string text_table(const std::vector<std::vector<std::string>>& cells, std::string_view alignment,
                       std::string_view indent) {
  std::vector<std::size_t> widths(alignment.size());
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], utf8_length(row[i]));
  }
  std::string text;
  for (const auto& row : cells) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - utf8_length(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (alignment[i] == 'r' ? padding + row[i] : row[i] + padding);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string fixed(double value, int digits) {
  TextStream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

std::string mebibytes(double bytes) { return fixed(bytes / (1 << 20), 1); }

double unsigned_nan(double value) { return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value; }

std::string grouped(double value) {
  std::string digits = fixed(value, 0);
  for (std::ptrdiff_t i = std::ssize(digits) - 3; i > 0; i -= 3) digits.insert(static_cast<std::size_t>(i), 1, ',');
  return digits;
}

std::string counted(std::int64_t count, std::string_view word) {
  return grouped(static_cast<double>(count)) + plural(count, word).substr(std::to_string(count).size());
}

std::string milliseconds(double seconds) {
  const double value = 1e3 * seconds;
  return fixed(value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3) + " ms";
}

}  // namespace braid
