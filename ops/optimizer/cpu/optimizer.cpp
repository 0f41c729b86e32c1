#include "ops/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/cpu/tensor_list.h"
#include "ops/kernels/function_kernel.h"
#include "ops/optimizer/arithmetic.h"

// Copies of parameters arrive widened, like all low precision (ops/kernels/cpu/low_precision.h).

namespace braid::cpu {

namespace {

/// Calls update(gradient), where gradient(pointer, e) is an element of a gradient, without the scale of the loss; not
/// at all if the step is to be skipped. `factor` is null for gradients that are not scaled.
template <class T, class Update>
void with_gradient(const double* factor, const Update& update) {
  if (factor == nullptr) {
    update([](const T* gradient, std::int64_t e) { return gradient[e]; });
  } else if (*factor != 0) {
    update([f = static_cast<T>(*factor)](const T* gradient, std::int64_t e) { return f * gradient[e]; });
  }
}

/// Calls f(p[e], e) for e in [begin, end) of a parameter. The new values bypass the caches. All cores have read the old
/// ones, and before a core writes to what another's cache holds, that has to give it up. Between cores that share no
/// cache, this takes several times as long as the update.
template <class T, class F>
BRAID_TARGET_CLONES void update_past_caches(T* p, std::int64_t begin, std::int64_t end, F f) {
#if defined(__x86_64__)
  constexpr std::int64_t kLine = 64 / sizeof(T), kVector = 16 / sizeof(T);
  for (; begin < end && reinterpret_cast<std::uintptr_t>(p + begin) % 64 != 0; ++begin) f(p[begin], begin);
  for (; begin + kLine <= end; begin += kLine) {
    alignas(64) T line[kLine];
#pragma omp simd
    for (std::int64_t i = 0; i < kLine; ++i) {
      line[i] = p[begin + i];
      f(line[i], begin + i);
    }
    for (std::int64_t i = 0; i < kLine; i += kVector) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(p + begin + i), *reinterpret_cast<const __m128i*>(line + i));
    }
  }
  _mm_sfence();  // before what tells others to read them
#endif
  for (; begin < end; ++begin) f(p[begin], begin);
}

/// Calls f(p[e], e) for e in [begin, end) of a parameter.
template <class T, class F>
void update_each(T* p, std::int64_t begin, std::int64_t end, bool past_caches, const F& f) {
  if (past_caches) return update_past_caches(p, begin, end, f);
  for_each_element(begin, end, [=](std::int64_t e) { f(p[e], e); });
}

/// Whether new values bypass the caches: those of a parameter that is large, but not so large that no cache holds it
/// any more. One with a rounded copy is read again at once.
template <class T, class Options>
bool bypasses_caches(const Options& options, std::int64_t size) {
  constexpr std::int64_t kLeast = std::int64_t{1} << 20, kMost = std::int64_t{64} << 20;
  const std::int64_t bytes = size * static_cast<std::int64_t>(sizeof(T));
  return !options.rounded && bytes >= kLeast && bytes < kMost;
}

}  // namespace

Implementations make_sgd_update(const KernelSpec& spec) {
  const auto& op = static_cast<const ops::SgdUpdate&>(spec.op);
  const std::size_t scalars = op.scalars(), stride = op.stride();
  return for_float_type(spec, spec.inputs[scalars].dtype, [&]<class T>() {
    return function_kernel([parameters = TensorList(spec.inputs, scalars, stride), options = op.attributes(), scalars,
                            stride, width = spec.width](auto inputs, auto outputs) {
      const auto step = arithmetic::SgdStep<T>::make(options, *at<const double>(inputs, 0));
      with_gradient<T>(options.scaled ? at<const double>(inputs, 1) : nullptr, [&](auto of) {
        parameters.for_each_piece(width, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
          const T* gradient = at<const T>(inputs, scalars + i * stride + 1);
          T* p = at<T>(outputs, i * (stride - 1));  // new versions have the addresses of the old ones
          const bool past_caches = bypasses_caches<T>(options, parameters.size(i));
          if (options.momentum == 0) {
            update_each(p, begin, end, past_caches, [=](T& x, std::int64_t e) { step(x, of(gradient, e)); });
          } else {
            T* m = at<T>(outputs, i * (stride - 1) + 1);
            update_each(p, begin, end, past_caches, [=](T& x, std::int64_t e) { step(x, of(gradient, e), m[e]); });
          }
          if (options.rounded) std::copy(p + begin, p + end, at<T>(outputs, (i + 1) * (stride - 1) - 1) + begin);
        });
      });
    });
  });
}

Implementations make_adam_update(const KernelSpec& spec) {
  const auto& op = static_cast<const ops::AdamUpdate&>(spec.op);
  const std::size_t scalars = op.scalars(), stride = op.stride();
  return for_float_type(spec, spec.inputs[scalars].dtype, [&]<class T>() {
    return function_kernel([parameters = TensorList(spec.inputs, scalars, stride), options = op.attributes(), scalars,
                            stride, width = spec.width](auto inputs, auto outputs) {
      const auto step =
          arithmetic::AdamStep<T>::make(options, *at<const double>(inputs, 0), *at<const std::int32_t>(inputs, 1));
      with_gradient<T>(options.scaled ? at<const double>(inputs, 2) : nullptr, [&](auto of) {
        parameters.for_each_piece(width, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
          const T* gradient = at<const T>(inputs, scalars + i * stride + 1);
          const std::size_t first = i * (stride - 1);
          T *p = at<T>(outputs, first), *m = at<T>(outputs, first + 1), *v = at<T>(outputs, first + 2);
          const bool past_caches = bypasses_caches<T>(options, parameters.size(i));
          update_each(p, begin, end, past_caches, [=](T& x, std::int64_t e) {
            step(x, of(gradient, e), m[e], v[e], [](T y) { return std::sqrt(y); });
          });
          if (options.rounded) std::copy(p + begin, p + end, at<T>(outputs, first + 3) + begin);
        });
      });
    });
  });
}

}  // namespace braid::cpu
