#pragma once
// Checks of option values. The name of the option precedes their messages.

#include <CLI/CLI.hpp>
#include <charconv>
#include <type_traits>

#include "core/error.h"

namespace braid::apps {

/// A plain decimal number; CLI11 would read 010 as octal.
template <class Number>
CLI::Validator in_range(Number min, Number max) {
  constexpr bool kInteger = std::is_integral_v<Number>;
  return {[min, max](const std::string& text) -> std::string {
            Number value{};
            const char* last = text.data() + text.size();
            const auto [end, error] = std::from_chars(text.data(), last, value);
            const bool plain = error == std::errc() && end == last && (!kInteger || std::to_string(value) == text);
            if (plain && min <= value && value <= max) return "";
            return message("expected ", kInteger ? "an integer" : "a number", " from ", min, " to ", max, ", got '",
                           text, '\'');
          },
          ""};
}

inline CLI::Validator not_empty() {
  return {[](const std::string& text) -> std::string { return text.empty() ? "expected a value, got ''" : ""; }, ""};
}

}  // namespace braid::apps
