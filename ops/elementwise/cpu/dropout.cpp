#include "ops/elementwise/dropout.h"

#include "ops/common/arithmetic.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cpu {

namespace {

/// Draws for the elements from the quad of `begin` on.
BRAID_TARGET_CLONES void draw(std::uint64_t seed, std::uint32_t layer, std::int32_t step, std::int64_t begin,
                              std::int64_t quads, std::uint32_t* draws) {
#pragma omp simd
  for (std::int64_t i = 0; i < quads; ++i) {
    const PhiloxBlock block = ops::dropout_draws(seed, layer, step, static_cast<std::uint64_t>(begin / 4 + i));
    draws[4 * i] = block.x[0];
    draws[4 * i + 1] = block.x[1];
    draws[4 * i + 2] = block.x[2];
    draws[4 * i + 3] = block.x[3];
  }
}

}  // namespace

Implementations make_dropout(const KernelSpec& spec) {
  const ops::DropoutRuns whole = static_cast<const ops::Dropout&>(spec.op).runs(spec.inputs[0].shape, 0);
  return float_kernel(spec, [=, attributes = spec.attributes<ops::Dropout>(), size = spec.inputs[0].shape.size(),
                             width = spec.width]<class T>(auto inputs, auto outputs) {
    const arithmetic::DropoutScale<T> scale{static_cast<float>(attributes.p)};
    const T* x = at<const T>(inputs, 0);
    const std::int32_t step = *at<const std::int32_t>(inputs, 1);
    ops::DropoutRuns runs = whole;
    if (inputs.size() == 3) runs.number = *at<const std::int32_t>(inputs, 2);
    T* y = at<T>(outputs, 0);
    constexpr std::int64_t kBlock = 256;
    static_assert(kElementGrain % kBlock == 0 && kBlock % 4 == 0, "a piece holds whole blocks, a block whole quads");
    parallel_for(width, size, kElementGrain, [=](std::int64_t begin, std::int64_t end) {
      std::uint32_t draws[kBlock + 4];
      while (begin < end) {
        const std::int64_t in_whole = runs.in_whole(begin), left = runs.length - begin % runs.length;
        const std::int64_t count = std::min({kBlock, end - begin, left});
        draw(attributes.seed, attributes.layer, step, in_whole, (count + 3) / 4 + 1, draws);
        for_each_element(0, count, [scale, x = x + begin, y = y + begin, d = &draws[in_whole % 4]](std::int64_t i) {
          y[i] = x[i] * scale(d[i]);
        });
        begin += count;
      }
    });
  });
}

}  // namespace braid::cpu
