#pragma once
// Errors are exceptions whose message a user can act on: what was expected, what was found, where, and what to do.

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

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

/// A rank has died, is late, or calls something else than the others: names the rank and the call.
struct CommunicationError : Error {
  using Error::Error;
};

/// A part of a message: text, a number, or another object that can be streamed. It must outlive the part.
class MessagePart {
 public:
  template <class T>
  MessagePart(const T& part) {
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      kind_ = Kind::text, text_ = part;
    } else if constexpr (std::is_same_v<T, char>) {
      kind_ = Kind::character, integer_ = part;
    } else if constexpr (std::is_floating_point_v<T>) {
      kind_ = Kind::number, number_ = static_cast<double>(part);
    } else if constexpr (std::is_integral_v<T>) {
      kind_ = std::is_signed_v<T> ? Kind::integer : Kind::size, integer_ = static_cast<std::int64_t>(part);
    } else {
      kind_ = Kind::object;
      object_ = {&part, [](std::ostream& out, const void* object) { out << *static_cast<const T*>(object); }};
    }
  }
  void print(std::ostream& out) const;

 private:
  struct Object {
    const void* address;
    void (*print)(std::ostream& out, const void* address);
  };

  enum class Kind { text, character, number, integer, size, object } kind_;
  union {
    std::string_view text_;
    double number_;
    std::int64_t integer_;
    Object object_;
  };
};

/// Streams all parts into one string: `message("expected ", 64, " channels")`.
std::string joined(std::initializer_list<MessagePart> parts);
template <class... Parts>
std::string message(const Parts&... parts) {
  return joined({parts...});
}

/// Kept out of the functions that check something, because it is rarely needed.
template <class ErrorType>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(std::initializer_list<MessagePart> parts) {
  throw ErrorType(joined(parts));
}

}  // namespace braid

/// Throws ErrorType with the streamed parts unless the condition holds. The parts are evaluated only on failure.
#define BRAID_CHECK(condition, ErrorType, ...)                                 \
  do {                                                                         \
    if (!(condition)) ::braid::throw_error<::braid::ErrorType>({__VA_ARGS__}); \
  } while (false)
