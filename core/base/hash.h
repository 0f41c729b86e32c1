#pragma once
// Hashing for structural keys: two independent 64-bit lanes, so that different graphs almost never collide.

#include <bit>
#include <cstdint>
#include <string_view>

namespace braid {

/// Finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit moves every output bit.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// A 128-bit rolling hash. Order matters: add(a).add(b) differs from add(b).add(a).
struct Hash {
  std::uint64_t low = 0x9e3779b97f4a7c15u;
  std::uint64_t high = 0xd1b54a32d192ed03u;

  constexpr Hash& add(std::uint64_t word) {
    low = mix_bits(low ^ word) + 0x9e3779b97f4a7c15u;
    high = (std::rotl(high, 29) ^ word) * 0xff51afd7ed558ccdu;
    high ^= high >> 32;
    return *this;
  }
  constexpr Hash& add(std::int64_t word) { return add(static_cast<std::uint64_t>(word)); }
  constexpr Hash& add(int word) { return add(static_cast<std::uint64_t>(static_cast<std::int64_t>(word))); }
  constexpr Hash& add(double value) { return add(std::bit_cast<std::uint64_t>(value)); }
  constexpr Hash& add(std::string_view text) {
    for (const char c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
    return add(static_cast<std::uint64_t>(text.size()));
  }
  friend constexpr bool operator==(const Hash&, const Hash&) = default;
};

}  // namespace braid

template <>
struct std::hash<braid::Hash> {
  std::size_t operator()(const braid::Hash& key) const noexcept { return key.low; }
};
