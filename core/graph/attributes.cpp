#include "core/graph/attributes.h"

#include <charconv>
#include <cmath>

#include "core/text/json.h"

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
  } else {
    out << Json(text).dump();
  }
}

}  // namespace braid::attribute
