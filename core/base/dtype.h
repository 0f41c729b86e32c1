#pragma once
// Element types. f32 and f64 are computed in; f16 and bf16 are storage types; i32 holds labels and counts; u8 holds
// small indices, such as the place of a maximum inside its pooling window.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <type_traits>

namespace braid {

// Names, sizes and C++ types below are in this order.
enum class DType : std::uint8_t { f32, f64, f16, bf16, i32, u8 };

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t kBytes[] = {4, 8, 2, 2, 4, 1};
  return kBytes[static_cast<std::size_t>(dtype)];
}

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"f32", "f64", "f16", "bf16", "i32", "u8"};
  return kNames[static_cast<std::size_t>(dtype)];
}

constexpr bool is_floating(DType dtype) { return dtype != DType::i32 && dtype != DType::u8; }
/// The type that values of a type are computed in: f32 for f16 and bf16, else the type itself.
constexpr DType computed_in(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype; }

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

/// IEEE 754 binary16, for storage. Conversion rounds to nearest even.
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float value);
  explicit operator float() const;
};

/// The upper half of a float, for storage. Conversion rounds to nearest even.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value);
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

/// The DType of a C++ element type.
template <class T>
constexpr DType dtype_of() {
  constexpr bool kIs[] = {std::is_same_v<T, float>,        std::is_same_v<T, double>,
                          std::is_same_v<T, Half>,         std::is_same_v<T, BFloat16>,
                          std::is_same_v<T, std::int32_t>, std::is_same_v<T, std::uint8_t>};
  constexpr auto kPlace = std::ranges::find(kIs, true) - kIs;
  static_assert(kPlace < std::ssize(kIs), "no DType has elements of this type");
  return static_cast<DType>(kPlace);
}

inline BFloat16::BFloat16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  if ((word & 0x7fffffffu) > 0x7f800000u) {
    bits = static_cast<std::uint16_t>((word >> 16) | 0x40u);  // keep a NaN a NaN
  } else {
    bits = static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
}

inline Half::Half(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (word >> 16) & 0x8000u;
  const std::uint32_t magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN
    bits = static_cast<std::uint16_t>(sign | 0x7e00u);
  } else if (magnitude >= 0x477ff000u) {  // rounds to infinity
    bits = static_cast<std::uint16_t>(sign | 0x7c00u);
  } else if (magnitude < 0x38800000u) {  // subnormal: let the FPU round at 2^-24
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(scaled) - 0x3f000000u));
  } else {
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
}

inline Half::operator float() const {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

}  // namespace braid
