#include "ops/index/gather.h"

#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cpu {

namespace {

/// Throws DataError for the first index out of range. Runs before any parallel loop, because no exception may leave
/// one.
void check_indices(std::string_view op, const GatherGeometry& g, std::int64_t count, const std::int32_t* index) {
  for (std::int64_t place = 0; place < count; ++place) {
    BRAID_CHECK(g.is_valid(index[place]), DataError, "[", op, "] expected indices in [0, ", g.extent, "), got ",
                index[place], " at place ", place);
  }
}

/// Elements move as words of their size.
template <class Word>
std::unique_ptr<Kernel> gather_words(const GatherGeometry& g, std::int64_t indices, int width) {
  return function_kernel([=](auto inputs, auto outputs) {
    const std::int32_t* index = at<const std::int32_t>(inputs, 1);
    check_indices("gather", g, indices, index);
    const Word* x = at<const Word>(inputs, 0);
    Word* y = at<Word>(outputs, 0);
    parallel_for(width, g.outer * g.chosen, grain_of(g.inner), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t o = row / g.chosen, b = row % g.chosen;
        const std::int32_t* of_row = index + g.place(o, b, 0);
        Word* to = y + row * g.inner;
        const Word* from = x + o * g.extent * g.inner;
        if (g.inner_step == 0) {
          if (*of_row == g.nothing) {
            std::fill_n(to, g.inner, Word{});
          } else {
            std::copy_n(from + *of_row * g.inner, g.inner, to);
          }
          continue;
        }
        for (std::int64_t i = 0; i < g.inner; ++i)
          to[i] = of_row[i] == g.nothing ? Word{} : from[of_row[i] * g.inner + i];
      }
    });
  });
}

}  // namespace

Implementations make_gather(const KernelSpec& spec) {
  const Shape& indices = spec.inputs[1].shape;
  const auto& attributes = spec.attributes<ops::Gather>();
  const GatherGeometry g(attributes, spec.inputs[0].shape[attributes.axis], spec.outputs[0].shape, indices);
  switch (size_of(spec.inputs[0].dtype)) {
    case 1: return gather_words<std::uint8_t>(g, indices.size(), spec.width);
    case 4: return gather_words<std::uint32_t>(g, indices.size(), spec.width);
    default: return gather_words<std::uint64_t>(g, indices.size(), spec.width);
  }
}

/// A piece of work is some columns of one outer place, whose rows are added in their order.
Implementations make_scatter_sum(const KernelSpec& spec) {
  const Shape& indices = spec.inputs[1].shape;
  const auto& [attributes, extent] = spec.attributes<ops::ScatterSum>();
  const GatherGeometry g(attributes, extent, spec.inputs[0].shape, indices);
  return float_kernel(spec, [g, count = indices.size(), width = spec.width]<class T>(auto inputs, auto outputs) {
    constexpr std::int64_t kColumns = 64;
    const std::int32_t* index = at<const std::int32_t>(inputs, 1);
    check_indices("scatter_sum", g, count, index);
    const T* dy = at<const T>(inputs, 0);
    T* dx = at<T>(outputs, 0);
    const std::int64_t pieces = divide_up(g.inner, kColumns);
    const std::int64_t piece_size = (g.extent + g.chosen) * std::min(g.inner, kColumns);
    parallel_for(width, g.outer * pieces, grain_of(piece_size), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        const std::int64_t o = piece / pieces, first = piece % pieces * kColumns;
        const std::int64_t columns = std::min(kColumns, g.inner - first);
        T* const to = dx + o * g.extent * g.inner + first;
        for (std::int64_t a = 0; a < g.extent; ++a) std::fill_n(to + a * g.inner, columns, T(0));
        for (std::int64_t b = 0; b < g.chosen; ++b) {
          const std::int32_t* of_row = index + g.place(o, b, first);
          const T* from = dy + (o * g.chosen + b) * g.inner + first;
          for (std::int64_t i = 0; i < columns; ++i) {
            const std::int64_t a = of_row[i * g.inner_step];
            if (a != g.nothing) to[a * g.inner + i] += from[i];
          }
        }
      }
    });
  });
}

}  // namespace braid::cpu
