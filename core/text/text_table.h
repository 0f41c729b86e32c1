#pragma once
// Tables and numbers for users to read.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

/// The greatest width of what the command prints, that of a terminal.
inline constexpr std::size_t kTextWidth = 80;

/// The text with its lines broken at blanks, so that none has more than `width` characters unless a word has. What
/// follows a line break begins with `indent` blanks.
std::string wrapped(std::string_view text, std::size_t indent = 0, std::size_t width = kTextWidth);

/// Lines with columns as wide as their widest cell, two spaces apart. `alignment` has a letter for every column: l for
/// left, r for right. Every line begins with `indent`.
std::string text_table(const std::vector<std::vector<std::string>>& cells, std::string_view alignment,
                       std::string_view indent = "");

/// The number with `digits` digits after the point.
std::string fixed(double value, int digits);
/// A whole number with commas: "11,689,512".
std::string grouped(double value);
/// "1 step", "1,404 steps".
std::string counted(std::int64_t count, std::string_view word);
/// A number of bytes in MiB, with one digit after the point: "12.3".
std::string mebibytes(double bytes);
/// Removes the sign of a NaN, which is meaningless but would be printed as "-nan".
double unsigned_nan(double value);
/// A time with three digits, as far as there are any after the point: "0.123 ms", "12.3 ms", "1234 ms".
std::string milliseconds(double seconds);

}  // namespace braid
