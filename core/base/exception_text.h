#pragma once

#include <exception>
#include <new>
#include <string>

namespace braid {

/// The message of an exception; "out of memory" for std::bad_alloc, whose own message does not say so.
inline std::string exception_text(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace braid
