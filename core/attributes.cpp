#include "core/attributes.h"

#include <charconv>
#include <cmath>
#include <iomanip>

namespace braid::attribute {

/// The shortest text that reads back as the same number. JSON has no infinity and no NaN: there they are strings.
void print(std::ostream& out, double number, Notation notation) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  const std::string_view digits(text, static_cast<std::size_t>(end - text));
  if (std::isfinite(number)) {
    out << digits;
  } else {
    print(out, digits, notation);
  }
}

void print(std::ostream& out, std::string_view text, Notation notation) {
  if (notation == Notation::plain) {
    out << text;
    return;
  }
  out << '"';
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      out << "\\u00" << kDigits[static_cast<std::size_t>(c) >> 4] << kDigits[static_cast<std::size_t>(c) & 15];
    } else {
      if (c == '"' || c == '\\') out << '\\';
      out << c;
    }
  }
  out << '"';
}

}  // namespace braid::attribute
