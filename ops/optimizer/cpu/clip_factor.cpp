#include "ops/optimizer/clip_factor.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "ops/kernels/cpu/tensor_list.h"
#include "ops/kernels/function_kernel.h"
#include "ops/optimizer/arithmetic.h"

namespace braid::cpu {

namespace {

constexpr std::int64_t kPiece = 1 << 15;  // elements that are summed by themselves, so that threads do not matter

template <class T>
BRAID_TARGET_CLONES double sum_of_squares(const T* x, std::int64_t begin, std::int64_t end) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = begin; i < end; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace

Implementations make_clip_factor(const KernelSpec& spec) {
  const auto& op = static_cast<const ops::ClipFactor&>(spec.op);
  const std::size_t scalars = op.scalars();
  std::vector<std::int64_t> sizes;
  for (const ValueDesc& gradient : spec.inputs.subspan(scalars)) sizes.push_back(gradient.shape.size());
  const arithmetic::ClipStep step{op.attributes().max_norm};
  return function_kernel([=, is_f64 = are_f64(spec.inputs.subspan(scalars)), width = spec.width](auto inputs,
                                                                                                 auto outputs) {
    double sum = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::int64_t size = sizes[i], pieces = divide_up(size, kPiece);
      std::vector<double> sums(static_cast<std::size_t>(pieces));
      parallel_for(width, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          const std::int64_t first = p * kPiece, last = std::min(size, first + kPiece);
          sums[static_cast<std::size_t>(p)] = is_f64[i]
                                                  ? sum_of_squares(at<const double>(inputs, scalars + i), first, last)
                                                  : sum_of_squares(at<const float>(inputs, scalars + i), first, last);
        }
      });
      sum = std::accumulate(sums.begin(), sums.end(), sum);
    }
    const double factor = scalars == 0 ? 1 : *at<const double>(inputs, 0);
    step(std::sqrt(sum), factor, *at<double>(outputs, 0), *at<double>(outputs, 1));
  });
}

}  // namespace braid::cpu
