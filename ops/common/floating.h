#pragma once
// Maps a floating dtype to its C++ type, for kernels of both backends.

#include "core/base/dtype.h"

namespace braid {

/// Calls `make.operator()<T>()` with the C++ type of a floating dtype.
template <class Make>
auto for_any_float(DType dtype, const Make& make) {
  switch (dtype) {
    case DType::f64: return make.template operator()<double>();
    case DType::f16: return make.template operator()<Half>();
    case DType::bf16: return make.template operator()<BFloat16>();
    default: return make.template operator()<float>();
  }
}

}  // namespace braid
