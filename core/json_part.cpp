#include "core/json_part.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"

namespace braid {

using Json = nlohmann::json;

Json parse_json(std::string_view text) {
  static constexpr int kMostDepth = 100;  // what is deeper, to write or to copy, could exhaust the stack
  const auto check_depth = [](int depth, Json::parse_event_t, const Json&) {
    if (depth > kMostDepth) throw JsonError(message("nested deeper than ", kMostDepth, " levels"));
    return true;
  };
  try {
    return Json::parse(text, check_depth);
  } catch (const Json::parse_error& error) {
    const std::string_view before = text.substr(0, std::clamp<std::size_t>(error.byte, 1, text.size() + 1) - 1);
    const std::size_t line_start = before.rfind('\n') + 1;  // 0 in the first line
    throw JsonError(message("line ", std::ranges::count(before, '\n') + 1, ", column ", before.size() - line_start + 1,
                            ": expected valid JSON, got ",
                            before.size() == text.size() ? "the end of the text" : "something else"));
  } catch (const Json::exception&) {
    throw JsonError("expected valid JSON, but a number is too large");
  }
}

void JsonPart::fail(std::string_view expected) const {
  const std::string found = shortened(json.dump(-1, ' ', true, Json::error_handler_t::replace), 61);
  throw JsonError(message(path.empty() ? "the whole" : "'" + path + "'", ' ', expected, ", got ", found));
}

JsonPart JsonPart::operator[](const char* key) const {
  if (!json.is_object()) fail(message("must be an object with a key '", key, "'"));
  if (!json.contains(key)) fail(message("has no key '", key, "'"));
  return {json[key], path.empty() ? key : path + "." + key};
}

std::vector<JsonPart> JsonPart::list() const {
  if (!json.is_array()) fail("must be a list");
  std::vector<JsonPart> parts;
  for (const Json& element : json) parts.push_back({element, message(path, "[", parts.size(), "]")});
  return parts;
}

void JsonPart::check_size(std::size_t size) const {
  if (json.size() != size) fail(message("has ", json.size(), " entries instead of ", size));
}

std::int64_t JsonPart::integer(std::int64_t low, std::int64_t high) const {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const bool fits = json.is_number_integer() && !(json.is_number_unsigned() && json.get<std::uint64_t>() > kMost);
  const std::int64_t number = fits ? json.get<std::int64_t>() : 0;
  if (!fits || number < low || number > high) fail(message("must be an integer from ", low, " to ", high));
  return number;
}

double JsonPart::number(double least) const {
  const bool fits = json.is_number() && std::isfinite(json.get<double>()) && json.get<double>() >= least;
  if (!fits) fail(message("must be a number of at least ", least));
  return json.get<double>();
}

std::string JsonPart::text() const {
  if (!json.is_string()) fail("must be a string");
  return json.get<std::string>();
}

}  // namespace braid
