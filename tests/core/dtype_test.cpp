#include "core/base/dtype.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace braid;

namespace {

template <class Storage>
Storage from_bits(int bits) {
  Storage value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

template <class Storage>
bool round_trips(int bits) {
  const float value = static_cast<float>(from_bits<Storage>(bits));
  if (std::isnan(value)) return std::isnan(static_cast<float>(Storage(value)));
  return Storage(value).bits == bits;
}

/// Between two neighbours, the midpoint goes to the even one and everything else to the nearer one.
template <class Storage>
bool rounds_to_nearest_even(int bits) {
  const float low = static_cast<float>(from_bits<Storage>(bits)),
              high = static_cast<float>(from_bits<Storage>(bits + 1));
  if (!std::isfinite(low) || !std::isfinite(high)) return true;
  const float middle = low + (high - low) / 2;  // exact: float has at least one more bit
  return Storage(middle).bits == (bits % 2 == 0 ? bits : bits + 1) &&
         Storage(std::nextafter(middle, low)).bits == bits && Storage(std::nextafter(middle, high)).bits == bits + 1;
}

template <class Storage, class Property>
int failures(const Property& holds) {
  int count = 0;
  for (int bits = 0; bits < 0x10000; ++bits) count += holds(bits) ? 0 : 1;
  return count;
}

}  // namespace

TEST_CASE("all 65536 values of the storage types survive the way to float and back") {
  CHECK(failures<Half>(round_trips<Half>) == 0);
  CHECK(failures<BFloat16>(round_trips<BFloat16>) == 0);
}

TEST_CASE("conversion to the storage types rounds to nearest even") {
  const auto has_neighbour = [](int bits) { return (bits & 0x7fff) != 0x7fff; };
  CHECK(failures<Half>([&](int bits) { return !has_neighbour(bits) || rounds_to_nearest_even<Half>(bits); }) == 0);
  CHECK(failures<BFloat16>([&](int bits) { return !has_neighbour(bits) || rounds_to_nearest_even<BFloat16>(bits); }) ==
        0);
}

TEST_CASE("halves have the values of IEEE 754 binary16") {
  CHECK(static_cast<float>(from_bits<Half>(0x3c00)) == 1.0f);
  CHECK(static_cast<float>(from_bits<Half>(0xc000)) == -2.0f);
  CHECK(static_cast<float>(from_bits<Half>(0x7bff)) == 65504.0f);
  CHECK(static_cast<float>(from_bits<Half>(0x0001)) == 0x1p-24f);
  CHECK(static_cast<float>(from_bits<Half>(0x0400)) == 0x1p-14f);
  CHECK(std::signbit(static_cast<float>(from_bits<Half>(0x8000))));
}

TEST_CASE("what is too large for a half becomes infinite, from the midpoint on") {
  CHECK(Half(std::nextafter(65520.0f, 0.0f)).bits == 0x7bff);
  CHECK(Half(65520.0f).bits == 0x7c00);
  CHECK(Half(-1e9f).bits == 0xfc00);
  CHECK(Half(std::numeric_limits<float>::infinity()).bits == 0x7c00);
}

TEST_CASE("what is too small for a half becomes a zero of its sign") {
  CHECK(Half(0x1p-25f).bits == 0);  // halfway to the smallest subnormal: to even
  CHECK(Half(std::nextafter(0x1p-25f, 1.0f)).bits == 1);
  CHECK(Half(-1e-30f).bits == 0x8000);
}
