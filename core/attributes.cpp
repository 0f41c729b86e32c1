#include "core/attributes.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

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
  using nlohmann::json;
  if (notation == Notation::plain) {
    out << text;
  } else {
    out << json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  }
}

}  // namespace braid::attribute
