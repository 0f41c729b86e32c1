#pragma once
// Errors as texts.

#include <string>
#include <string_view>

namespace braid::testing {

/// The message with which `call` throws an ErrorType; empty if it does not throw.
template <class ErrorType, class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return {};
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace braid::testing
