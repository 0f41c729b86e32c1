#pragma once
// Counter-based random numbers: the draw for (seed, stream, index) is a pure function, so it is the same on every
// device, for every thread count and in any order. Philox4x32-10 (Salmon et al., SC 2011).

#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define BRAID_HOST_DEVICE __host__ __device__
#else
#define BRAID_HOST_DEVICE
#endif

namespace braid {

/// Four 32-bit draws of Philox4x32-10.
struct PhiloxBlock {
  std::uint32_t x[4];
};

BRAID_HOST_DEVICE inline PhiloxBlock philox(std::uint64_t key, std::uint64_t counter_high, std::uint64_t counter_low) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  PhiloxBlock block{{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
                     static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * block.x[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * block.x[2];
    block = {{static_cast<std::uint32_t>(b >> 32) ^ block.x[1] ^ k0, static_cast<std::uint32_t>(b),
              static_cast<std::uint32_t>(a >> 32) ^ block.x[3] ^ k1, static_cast<std::uint32_t>(a)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return block;
}

/// Maps 32 random bits to [0, 1) with 24 bits, exactly representable as float.
BRAID_HOST_DEVICE inline float to_unit(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

/// A sequential reader of one Philox stream, for initialisation and shuffling on the host.
class Generator {
 public:
  explicit Generator(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  std::uint32_t next() {
    if (used_ == 4) {
      block_ = block(counter_++);
      used_ = 0;
    }
    return block_.x[used_++];
  }
  /// The numbers that next() returns from draw 4·number on.
  PhiloxBlock block(std::uint64_t number) const { return philox(seed_, stream_, number); }
  /// How many numbers next() has returned.
  std::uint64_t position() const { return 4 * counter_ + static_cast<std::uint64_t>(used_) - 4; }
  /// Continues as if next() had returned this many.
  void seek(std::uint64_t position) {
    counter_ = position / 4;
    used_ = 4;
    has_spare_ = false;
    for (std::uint64_t i = 0; i < position % 4; ++i) next();
  }
  /// Uniform in [0, 1).
  float uniform() { return to_unit(next()); }
  /// Uniform integer in [0, bound), without bias (Lemire 2019). bound must be positive.
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{next()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t threshold = (0u - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{next()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }
  /// Standard normal. Box and Muller (1958) make two at a time; the second is kept for the next call.
  float normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(next()) + 1.0) * 0x1p-32));
    const double angle = 6.283185307179586 * 0x1p-32 * static_cast<double>(next());
    spare_ = static_cast<float>(radius * std::sin(angle));
    has_spare_ = true;
    return static_cast<float>(radius * std::cos(angle));
  }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t counter_ = 0;
  PhiloxBlock block_{};
  int used_ = 4;
  float spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace braid
