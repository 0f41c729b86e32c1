#include "ops/kernels/cuda/units.cuh"
#include "ops/layout/byte_rows.h"
#include "ops/layout/concat.h"

namespace braid::cuda {

namespace {

/// Columns of a matrix, each range of them from a separate matrix. Extents are in units.
struct ColumnTable {
  static constexpr int kParts = 128;

  const void* from[kParts];
  std::int64_t pitch[kParts];  // from row to row of a part
  int end[kParts];             // last-plus-one column in the whole
  int count = 0;
};

/// A thread copies a unit at a time. Rows and columns are few enough for indices of 32 bits.
template <class T>
__global__ void __launch_bounds__(kThreads)
    copy_columns_kernel(int rows, int columns, std::int64_t first_row, const __grid_constant__ ColumnTable table, T* to,
                        std::int64_t to_pitch) {
  const unsigned size = static_cast<unsigned>(rows) * static_cast<unsigned>(columns), threads = gridDim.x * kThreads;
  for (unsigned i = blockIdx.x * kThreads + threadIdx.x; i < size; i += threads) {
    const int row = static_cast<int>(i / static_cast<unsigned>(columns));
    const int column = static_cast<int>(i % static_cast<unsigned>(columns));
    int low = 0, high = table.count - 1;  // the first part that ends after the column
    while (low < high) {
      const int middle = (low + high) / 2;
      if (column < table.end[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    const int begin = low == 0 ? 0 : table.end[low - 1];
    const T* from = static_cast<const T*>(table.from[low]) + (first_row + row) * table.pitch[low] + (column - begin);
    to[(first_row + row) * to_pitch + column] = *from;
  }
}

/// A range of columns to copy, in bytes.
struct Part {
  std::int64_t offset;  // offset of its first column in its rows
  std::int64_t bytes;   // size of its columns
  std::int64_t pitch;   // from row to row
};

/// Copies the parts side by side into rows that are to_pitch bytes apart.
void copy_columns(const StreamHandles& stream, std::string_view op, int units, std::int64_t rows,
                  std::span<const Part> parts, std::span<void* const> from, std::byte* to, std::int64_t to_pitch) {
  for (std::size_t first = 0; first < parts.size(); first += ColumnTable::kParts) {
    const std::size_t last = std::min(parts.size(), first + ColumnTable::kParts);
    std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(to) | static_cast<std::uintptr_t>(to_pitch);
    for (std::size_t i = first; i < last; ++i) {
      bits |= reinterpret_cast<std::uintptr_t>(from[i]) | static_cast<std::uintptr_t>(parts[i].offset) |
              static_cast<std::uintptr_t>(parts[i].bytes) | static_cast<std::uintptr_t>(parts[i].pitch);
    }
    with_unit(bits, [&](auto unit) {
      using T = decltype(unit);
      constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
      ColumnTable table;
      std::int64_t columns = 0;
      for (std::size_t i = first; i < last; ++i) {
        columns += parts[i].bytes / kBytes;
        table.from[table.count] = at<const std::byte>(from, i) + parts[i].offset;
        table.pitch[table.count] = parts[i].pitch / kBytes;
        table.end[table.count++] = static_cast<int>(columns);
      }
      for_row_groups(op, rows, columns, [&](std::int64_t first_row, std::int64_t count) {
        launch(stream, {.grid = blocks_for(count * columns, kThreads, units), .block = kThreads},
               copy_columns_kernel<T>, static_cast<int>(count), static_cast<int>(columns), first_row, table,
               reinterpret_cast<T*>(to), to_pitch / kBytes);
      });
    });
    for (std::size_t i = first; i < last; ++i) to += parts[i].bytes;
  }
}

/// Inputs of a slice sum that one launch adds.
template <class T>
struct SliceTable {
  static constexpr std::size_t kTerms = 128;
  const T* x[kTerms];          // the first channel
  std::int64_t pitch[kTerms];  // from row to row
  int count = 0;
};

/// y [rows, columns] = the sum of the slices, or grows by it. Reads an element of every slice before it writes y's.
template <int kWidth, class T>
__global__ void __launch_bounds__(kThreads) slice_sum_kernel(int rows, int columns, std::int64_t first_row, bool grows,
                                                             const __grid_constant__ SliceTable<T> table, T* y) {
  const unsigned vectors = static_cast<unsigned>(columns) / kWidth, size = static_cast<unsigned>(rows) * vectors;
  const unsigned threads = gridDim.x * kThreads;
  for (unsigned i = blockIdx.x * kThreads + threadIdx.x; i < size; i += threads) {
    const std::int64_t row = first_row + i / vectors, column = std::int64_t{i % vectors} * kWidth;
    T* const to = y + row * columns + column;
    const auto term = [&](int j) { return load<kWidth>(table.x[j] + row * table.pitch[j] + column); };
    auto sum = grows ? load<kWidth>(static_cast<const T*>(to)) : term(0);
#pragma unroll 2
    for (int j = grows ? 0 : 1; j < table.count; ++j) {
      const auto lanes = term(j);
      for_lanes<kWidth>([&](int lane) { sum[lane] += lanes[lane]; });
    }
    store<kWidth>(to, sum);
  }
}

}  // namespace

Implementations make_concat(const KernelSpec& spec) {
  const int axis = spec.attributes<ops::Concat>().axis;
  const ByteRows whole(spec.outputs[0], axis);
  std::vector<Part> parts;
  for (const ValueDesc& input : spec.inputs) {
    const std::int64_t bytes = ByteRows(input, axis).bytes;
    parts.push_back({.offset = 0, .bytes = bytes, .pitch = bytes});
  }
  return function_kernel([=, units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
    copy_columns(stream, "concat", units, whole.rows, parts, inputs, at<std::byte>(outputs, 0), whole.bytes);
  });
}

Implementations make_channel_slice(const KernelSpec& spec) {
  const ByteRows whole(spec.inputs[0]), slice(spec.outputs[0]);
  const auto begin = spec.attributes<ops::ChannelSlice>().begin;
  const Part part{.offset = begin * static_cast<std::int64_t>(size_of(spec.inputs[0].dtype)),
                  .bytes = slice.bytes,
                  .pitch = whole.bytes};
  return function_kernel([=, units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
    copy_columns(stream, "channel_slice", units, slice.rows, std::span(&part, 1), inputs, at<std::byte>(outputs, 0),
                 slice.bytes);
  });
}

Implementations make_slice_sum(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    const std::span<const std::int64_t> begins = spec.attributes<ops::SliceSum>().begins;
    std::vector<std::int64_t> pitches;
    for (const ValueDesc& input : spec.inputs) pitches.push_back(input.shape[-1]);
    const Shape& y_shape = spec.outputs[0].shape;
    const std::int64_t columns = y_shape[-1], rows = columns == 0 ? 0 : y_shape.size() / columns;
    return function_kernel([=, begins = std::vector(begins.begin(), begins.end()), units = spec.info->capacity](
                               const StreamHandles& stream, auto inputs, auto outputs) {
      constexpr int kWidth = kVectorWidth<T>;
      T* const y = at<T>(outputs, 0);
      for (std::size_t first = 0; first < inputs.size(); first += SliceTable<T>::kTerms) {
        SliceTable<T> table;
        bool aligned = is_aligned<kWidth>(y) && columns % kWidth == 0;
        for (std::size_t i = first; i < std::min(inputs.size(), first + SliceTable<T>::kTerms); ++i) {
          const T* const x = at<const T>(inputs, i) + begins[i];
          aligned = aligned && is_aligned<kWidth>(x) && pitches[i] % kWidth == 0;
          table.x[table.count] = x;
          table.pitch[table.count++] = pitches[i];
        }
        for_row_groups("slice_sum", rows, columns, [&](std::int64_t first_row, std::int64_t count) {
          with_width<kWidth>(aligned, [&]<int kLanes>() {
            launch(stream, stride_shape(count * columns, kLanes, units), slice_sum_kernel<kLanes, T>,
                   static_cast<int>(count), static_cast<int>(columns), first_row, first > 0, table, y);
          });
        });
      }
    });
  });
}

}  // namespace braid::cuda
