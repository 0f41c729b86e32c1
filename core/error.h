#pragma once
// Errors are exceptions whose message a user can act on: what was expected, what was found, where, and what to do.

#include <sstream>
#include <stdexcept>
#include <string>

namespace braid {

/// Base of everything Braid throws on purpose.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Shapes or dtypes of an op do not fit: "[conv2d] expected …, got …".
struct ShapeError : Error {
  using Error::Error;
};

/// A config key is unknown, mistyped or out of range: "file:line:column: key.path: …".
struct ConfigError : Error {
  using Error::Error;
};

/// A data file is missing, truncated or corrupt: names the file and the byte.
struct DataError : Error {
  using Error::Error;
};

/// A device is missing, out of memory or failed.
struct DeviceError : Error {
  using Error::Error;
};

/// A device has less free memory than requested.
struct OutOfMemory : DeviceError {
  using DeviceError::DeviceError;
};

/// A fault on the device has destroyed its context: this process cannot use the device any more.
struct DeviceLost : DeviceError {
  using DeviceError::DeviceError;
};

/// A library does not execute a kernel that it offered. Kernels made afterwards do without it.
struct UnusableKernel : DeviceError {
  using DeviceError::DeviceError;
};

/// A plan is invalid: a race, a deadlock, a node launched twice.
struct PlanError : Error {
  using Error::Error;
};

/// A rank is gone, late, or does something else than the others: names the rank and the call.
struct CommunicationError : Error {
  using Error::Error;
};

/// Streams all parts into one string: `message("expected ", 64, " channels")`.
template <class... Parts>
std::string message(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace braid

/// Throws ErrorType with the streamed parts unless the condition holds. The parts are evaluated only on failure.
#define BRAID_CHECK(condition, ErrorType, ...)                                 \
  do {                                                                         \
    if (!(condition)) throw ::braid::ErrorType(::braid::message(__VA_ARGS__)); \
  } while (false)
