#include "ops/layout/concat.h"

#include <cstring>

#include "ops/kernels/cpu/channel_rows.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"
#include "ops/layout/byte_rows.h"

namespace braid::cpu {

namespace {

constexpr std::int64_t kPieceBytes = 65536;

/// Copies `bytes` per row between rows that are `from_pitch` and `to_pitch` apart.
void copy_rows(std::int64_t rows, std::int64_t bytes, const std::byte* from, std::int64_t from_pitch, std::byte* to,
               std::int64_t to_pitch) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * to_pitch, from + row * from_pitch, static_cast<std::size_t>(bytes));
  }
}

/// y [rows, width] = the sum of kTerms terms, whose rows are pitch[i] elements apart; with kAdd, y += it. Reads an
/// element of every term before it writes y's.
template <bool kAdd, int kTerms, class T>
BRAID_TARGET_CLONES void add_terms(std::int64_t rows, std::int64_t width, const T* const* x, const std::int64_t* pitch,
                                   T* y) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* terms[kTerms];
    for (int i = 0; i < kTerms; ++i) terms[i] = x[i] + row * pitch[i];
    T* const to = y + row * width;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) {
      T sum = kAdd ? to[c] + terms[0][c] : terms[0][c];
#pragma GCC unroll 4
      for (int i = 1; i < kTerms; ++i) sum += terms[i][c];
      to[c] = sum;
    }
  }
}

}  // namespace

Implementations make_concat(const KernelSpec& spec) {
  const int axis = spec.attributes<ops::Concat>().axis;
  std::vector<ByteRows> parts;
  for (const ValueDesc& input : spec.inputs) parts.emplace_back(input, axis);
  const ByteRows whole(spec.outputs[0], axis);
  return function_kernel([parts, whole, width = spec.width](auto inputs, auto outputs) {
    parallel_for(width, whole.rows, grain_of(whole.bytes, kPieceBytes), [&](std::int64_t begin, std::int64_t end) {
      std::byte* to = at<std::byte>(outputs, 0) + begin * whole.bytes;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::int64_t bytes = parts[i].bytes;
        if (bytes == 0) continue;
        copy_rows(end - begin, bytes, at<const std::byte>(inputs, i) + begin * bytes, bytes, to, whole.bytes);
        to += bytes;
      }
    });
  });
}

Implementations make_channel_slice(const KernelSpec& spec) {
  const ByteRows whole(spec.inputs[0]), part(spec.outputs[0]);
  const std::int64_t first =
      spec.attributes<ops::ChannelSlice>().begin * static_cast<std::int64_t>(size_of(spec.inputs[0].dtype));
  return function_kernel([=, width = spec.width](auto inputs, auto outputs) {
    parallel_for(width, part.rows, grain_of(part.bytes, kPieceBytes), [&](std::int64_t begin, std::int64_t end) {
      copy_rows(end - begin, part.bytes, at<const std::byte>(inputs, 0) + begin * whole.bytes + first, whole.bytes,
                at<std::byte>(outputs, 0) + begin * part.bytes, part.bytes);
    });
  });
}

Implementations make_slice_sum(const KernelSpec& spec) {
  const std::span<const std::int64_t> begins = spec.attributes<ops::SliceSum>().begins;
  std::vector<std::int64_t> first(begins.begin(), begins.end()), pitch;
  for (const ValueDesc& input : spec.inputs) pitch.push_back(input.shape[-1]);
  const ChannelRows y_rows(spec.outputs[0].shape);
  return float_kernel(spec, [=, width = spec.width]<class T>(auto inputs, auto outputs) {
    const std::int64_t count = y_rows.channels;
    parallel_for(width, y_rows.rows, grain_of(count, 4096), [&](std::int64_t begin, std::int64_t end) {
      T* y = at<T>(outputs, 0) + begin * count;
      for (std::size_t i = 0; i < inputs.size(); i += ops::SliceSum::kGroup) {
        with_constant<ops::SliceSum::kGroup>(std::ssize(inputs) - static_cast<std::ptrdiff_t>(i), [&]<int kTerms>() {
          const T* x[kTerms];
          for (std::size_t j = 0; j < kTerms; ++j) {
            x[j] = at<const T>(inputs, i + j) + begin * pitch[i + j] + first[i + j];
          }
          const auto add = i == 0 ? add_terms<false, kTerms, T> : add_terms<true, kTerms, T>;
          add(end - begin, count, x, &pitch[i], y);
        });
      }
    });
  });
}

}  // namespace braid::cpu
