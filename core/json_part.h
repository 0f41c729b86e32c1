#pragma once
// Reads untrusted JSON: everything is checked, and errors say where. Not for public headers, which do not include a
// JSON library.

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace braid {

struct JsonError : DataError {
  using DataError::DataError;
};

/// Throws JsonError "line 3, column 7: …" if the text is not JSON, or nested very deeply.
nlohmann::json parse_json(std::string_view text);

/// A part of a text and where it is, as "streams[1][7].wait". Every method throws JsonError "'where' what was expected,
/// got what". The whole must outlive its parts.
struct JsonPart {
  const nlohmann::json& json;
  std::string path = {};

  JsonPart operator[](const char* key) const;
  std::vector<JsonPart> list() const;
  void check_size(std::size_t size) const;
  std::int64_t integer(std::int64_t low, std::int64_t high) const;
  std::int32_t index(std::int64_t size) const { return static_cast<std::int32_t>(integer(0, size - 1)); }
  /// Finite.
  double number(double least) const;
  std::string text() const;
  [[noreturn]] void fail(std::string_view expected) const;
};

}  // namespace braid
