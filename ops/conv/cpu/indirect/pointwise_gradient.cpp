#include "ops/conv/cpu/indirect/panels.h"
#include "ops/kernels/function_kernel.h"

// The gradient of a 1x1 filter of many channels, dw [K,C] = dyᵀ·x: a product whose operands must both be packed, each
// only once. All threads first pack the one with fewer channels, for some pixels. Then each task packs its channels of
// the other one and multiplies them by all of the first.

namespace braid::cpu::indirect {

#if defined(__x86_64__)

namespace {

struct PointwiseGradient {
  static constexpr std::int64_t kChunk = 160;     ///< pixels multiplied at once: a panel of each operand fits in L1
  static constexpr std::int64_t kChunks = 8;      ///< at most, that are packed before tasks begin
  static constexpr std::int64_t kGradients = 16;  ///< filters of a panel of dy, for two products
  static constexpr std::int64_t kShared = 256;    ///< channels that a thread packs at a time for all
  static constexpr std::int64_t kOwn = kColumns;  ///< channels of a task
  static constexpr std::int64_t kLine = 64 / sizeof(float);

  std::int64_t pixels, c, k;
  int width;
  const NormalizedInput* normalized;

  bool shares_x() const { return c <= k; }
  std::int64_t shared_channels() const { return std::min(c, k); }
  std::int64_t own_channels() const { return std::max(c, k); }
  /// Floats of a chunk of what is shared, and of what a task packs.
  std::int64_t shared_chunk() const { return align_up(shared_channels(), kColumns) * kChunk; }
  static constexpr std::int64_t own_chunk() { return kOwn * kChunk; }
  std::int64_t scratch_floats() const {
    return std::clamp<std::int64_t>(divide_up(pixels, kChunk), 1, kChunks) * shared_chunk() + width * own_chunk();
  }

  void run(const float* x, const float* dy, float* dw, float* scratch) const {
    const std::int64_t rounds = std::max<std::int64_t>(1, divide_up(pixels, kChunks * kChunk));
    const std::int64_t shares = divide_up(shared_channels(), kShared), tasks = divide_up(own_channels(), kOwn);
    for (std::int64_t round = 0; round < rounds; ++round) {
      const Part of_round = part_of(pixels, 1, rounds, round);
      const std::int64_t chunks = std::max<std::int64_t>(1, divide_up(of_round.size, kChunk));
      const auto chunk = [&](std::int64_t i) {
        const Part part = part_of(of_round.size, 1, chunks, i);
        return Part{of_round.begin + part.begin, part.size};
      };
      parallel_for(width, chunks * shares, 1, [&](std::int64_t i, std::int64_t) {
        const Part channels = part_of(shared_channels(), kColumns, shares, i % shares);
        float* const to = scratch + i / shares * shared_chunk() + channels.begin * kChunk;
        shares_x() ? pack_x(x, chunk(i / shares), channels, to) : pack_dy(dy, chunk(i / shares), channels, to);
      });
      parallel_for(width, tasks, 1, [&](std::int64_t task, std::int64_t, int member) {
        const Part own = part_of(own_channels(), kOwn, tasks, task);
        float* const packed = scratch + chunks * shared_chunk() + member * own_chunk();
        for (std::int64_t i = 0; i < chunks; ++i) {
          const float* const shared = scratch + i * shared_chunk();
          const Part next{chunk(i).begin + chunk(i).size, i + 1 < chunks ? chunk(i + 1).size : 0};
          const bool add = round > 0 || i > 0;
          if (shares_x()) {
            pack_dy(dy, chunk(i), own, packed);
            multiply_chunk({0, c}, own, chunk(i).size, shared, packed, {dy + next.begin * k + own.begin, k, next.size},
                           add, dw);
          } else {
            pack_x(x, chunk(i), own, packed);
            multiply_chunk(own, {0, k}, chunk(i).size, packed, shared, {x + next.begin * c + own.begin, c, next.size},
                           add, dw);
          }
        }
      });
    }
  }

  void pack_x(const float* x, Part of_pixels, Part channels, float* to) const {
    pack<kColumns>(x + of_pixels.begin * c + channels.begin, c, of_pixels.size, channels.size, to, kColumns * kChunk);
    if (normalized == nullptr) return;
    normalize_packed(*normalized, channels.begin, channels.size, of_pixels.size, to, kColumns * kChunk);
  }

  void pack_dy(const float* dy, Part of_pixels, Part filters, float* to) const {
    pack<kGradients>(dy + of_pixels.begin * k + filters.begin, k, of_pixels.size, filters.size, to,
                     kGradients * kChunk);
  }

  /// Pixels that the task packs next: their channels are fetched into the second cache meanwhile, as packing alone
  /// would wait for memory.
  struct Next {
    const float* from;
    std::int64_t step, pixels;

    void fetch(std::int64_t most) {
      for (; most > 0 && pixels > 0; --most, --pixels, from += step) {
        for (std::int64_t i = 0; i < kOwn; i += kLine) __builtin_prefetch(from + i, 0, 2);
      }
    }
  };

  void multiply_chunk(Part channels, Part filters, std::int64_t chunk_pixels, const float* packed_x,
                      const float* packed_dy, Next next, bool add, float* dw) const {
    const std::int64_t products = divide_up(channels.size, kColumns) * divide_up(filters.size, kRows);
    const std::int64_t share = divide_up(next.pixels, products);
    for (std::int64_t j = 0; j < channels.size; j += kColumns) {
      for (std::int64_t i = 0; i < filters.size; i += kRows) {
        Term term{packed_x + j * kChunk, {}};
        Result result{{},      std::min(kRows, filters.size - i), std::min(kColumns, channels.size - j), add,
                      nullptr, range_of(Activation::none)};
        for (std::int64_t row = 0; row < result.rows; ++row) {
          term.a[row] = packed_dy + i / kGradients * kGradients * kChunk + i % kGradients + row;
          result.y[row] = dw + (filters.begin + i + row) * c + channels.begin + j;
        }
        next.fetch(share);
        multiply(&term, 1, chunk_pixels, kGradients, result);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Kernel> pointwise_gradient(const KernelSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &y = spec.inputs[1].shape;
  const PointwiseGradient gradient{x[0] * x[1] * x[2], x[3], y[3], spec.width, spec.normalized};
  const auto floats = static_cast<std::size_t>(gradient.scratch_floats());
  return function_kernel(floats * sizeof(float), [gradient](auto inputs, auto outputs, void* workspace) {
    gradient.run(at<const float>(inputs, 0), at<const float>(inputs, 1), at<float>(outputs, 0),
                 static_cast<float*>(workspace));
  });
}

#endif

}  // namespace braid::cpu::indirect
