#pragma once
// Maps a dtype to its C++ type, for kernels of both backends.

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

/// The same for every dtype.
template <class Make>
auto for_any_type(DType dtype, const Make& make) {
  switch (dtype) {
    case DType::i32: return make.template operator()<std::int32_t>();
    case DType::u8: return make.template operator()<std::uint8_t>();
    default: return for_any_float(dtype, make);
  }
}

}  // namespace braid
