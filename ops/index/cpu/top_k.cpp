#include "ops/index/top_k.h"

#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cpu {

/// Inserts element by element into the list of the best so far, which is the output itself: no other memory.
Implementations make_top_k(const KernelSpec& spec) {
  const auto& [k, largest] = spec.attributes<ops::TopK>();
  const Shape& x = spec.inputs[0].shape;
  const std::int64_t length = x[-1], rows = k == 0 ? 0 : x.size() / length;
  return float_kernel(spec, [=, k = k, largest = largest, width = spec.width]<class T>(auto inputs, auto outputs) {
    const T* elements = at<const T>(inputs, 0);
    T* values = at<T>(outputs, 0);
    std::int32_t* places = at<std::int32_t>(outputs, 1);
    parallel_for(width, rows, grain_of(length, kElementGrain / 4), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* of_row = elements + row * length;
        T* best = values + row * k;
        std::int32_t* best_places = places + row * k;
        std::int64_t count = 0;
        for (std::int64_t place = 0; place < length; ++place) {
          const auto is_beaten = [&](std::int64_t i) {
            return arithmetic::comes_before(largest, of_row[place], place, best[i], best_places[i]);
          };
          if (count == k && !is_beaten(k - 1)) continue;
          std::int64_t low = 0, high = count;  // the first that it beats is within
          while (low < high) {
            const std::int64_t middle = (low + high) / 2;
            if (is_beaten(middle)) {
              high = middle;
            } else {
              low = middle + 1;
            }
          }
          count = std::min(count + 1, k);
          std::copy_backward(best + low, best + count - 1, best + count);
          std::copy_backward(best_places + low, best_places + count - 1, best_places + count);
          best[low] = of_row[place];
          best_places[low] = static_cast<std::int32_t>(place);
        }
      }
    });
  });
}

}  // namespace braid::cpu
