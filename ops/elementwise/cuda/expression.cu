// Interprets the expression: all threads take the same steps, so control flow is uniform. Results
// of earlier steps are in shared memory, because registers cannot be numbered at run time.

#include "ops/elementwise/cuda/elementwise.cuh"
#include "ops/elementwise/expression.h"
#include "ops/elementwise/expression_program.h"

namespace braid::cuda {

namespace {

/// How a thread reads an input for neighbouring elements of the output.
enum class Access : std::uint8_t {
  whole,     ///< as a vector at the same place
  scalar,    ///< one element for all
  run,       ///< as a vector at another place
  repeated,  ///< one element for the vector
  single,    ///< each element at a separate place
};

template <class T>
struct ExpressionInput {
  const T* x;
  Access access;
  Broadcast broadcast;

  template <class Index>
  __device__ std::int64_t offset(Index place) const {
    std::int64_t offset = 0;
#pragma unroll 1  // four divisions of 64 bits in a row, for each lane of each operand, would be most of the code
    for (int axis = broadcast.rank - 1; axis > 0; --axis) {
      const auto extent = static_cast<Index>(broadcast.extent[axis]);
      const Index rest = place / extent;
      offset += static_cast<std::int64_t>(place - rest * extent) * broadcast.stride[axis];
      place = rest;
    }
    return offset + static_cast<std::int64_t>(place) * broadcast.stride[0];
  }
  __device__ std::int64_t offset_of(std::int64_t place) const {
    return place <= UINT32_MAX ? offset(static_cast<std::uint32_t>(place)) : offset(static_cast<std::uint64_t>(place));
  }
};

template <class T>
struct Interpreter {
  using C = Compute<T>;

  ExpressionProgram program;
  ExpressionInput<T> inputs[ops::Expression::kMaxInputs];
  T* y;

  template <int kWidth>
  __device__ Lanes<C, kWidth> read(const ExpressionInput<T>& input, std::int64_t first) const {
    Lanes<C, kWidth> lanes;
    if (input.access == Access::single) {
      for_lanes<kWidth>([&](int i) { lanes[i] = widen(input.x[input.offset_of(first + i)]); });
      return lanes;
    }
    const std::int64_t offset = input.access == Access::whole    ? first
                                : input.access == Access::scalar ? 0
                                                                 : input.offset_of(first);
    if (input.access == Access::whole || input.access == Access::run) return load<kWidth>(input.x + offset);
    const C element = widen(input.x[offset]);
    for_lanes<kWidth>([&](int i) { lanes[i] = element; });
    return lanes;
  }

  template <int kWidth>
  __device__ Lanes<C, kWidth> operand(int number, std::int64_t first,
                                      const Lanes<C, kWidth> (&slots)[ExpressionProgram::kMaxSlots][kThreads]) const {
    if (number < ExpressionProgram::kConstant) return read<kWidth>(inputs[number], first);
    if (number < ExpressionProgram::kSlot) {
      Lanes<C, kWidth> lanes;
      const C constant = static_cast<C>(program.constants[number - ExpressionProgram::kConstant]);
      for_lanes<kWidth>([&](int i) { lanes[i] = constant; });
      return lanes;
    }
    return slots[number - ExpressionProgram::kSlot][threadIdx.x];
  }

  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    __shared__ Lanes<C, kWidth> slots[ExpressionProgram::kMaxSlots][kThreads];
    Lanes<C, kWidth> value;
    if (program.count == 0) value = read<kWidth>(inputs[0], first);
    for (int s = 0; s < program.count; ++s) {
      const ExpressionProgram::Step& step = program.steps[s];
      const Lanes<C, kWidth> a = operand<kWidth>(step.a, first, slots), b = operand<kWidth>(step.b, first, slots);
      functions::with_function(step.function, [&]<Function kFunction>() {
        for_lanes<kWidth>([&](int i) { value[i] = functions::evaluate<kFunction>(a[i], b[i]); });
      });
      if (s + 1 < program.count) slots[step.slot][threadIdx.x] = value;
    }
    store<kWidth>(y + first, value);
  }
};

}  // namespace

Implementations make_elementwise(const KernelSpec& spec) {
  return for_any_float(spec.outputs[0].dtype, [&]<class T>() {
    constexpr int kWidth = std::min(kVectorWidth<T>, 4);  // wider ones of f16 would not fit into the registers
    const Shape& shape = spec.outputs[0].shape;
    Interpreter<T> unbound{
        .program = ExpressionProgram(spec.attributes<ops::Elementwise>().expression), .inputs = {}, .y = nullptr};
    for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
      unbound.inputs[i].broadcast = Broadcast(spec.inputs[i].shape, shape);
    }
    return function_kernel([unbound, size = shape.size(), count = spec.inputs.size(), units = spec.info->capacity](
                               const StreamHandles& stream, auto inputs, auto outputs) {
      Interpreter<T> body = unbound;
      body.y = at<T>(outputs, 0);
      bool aligned = is_aligned<kWidth>(body.y);
      for (std::size_t i = 0; i < count; ++i) {
        ExpressionInput<T>& input = body.inputs[i];
        input.x = at<const T>(inputs, i);
        const Broadcast& broadcast = input.broadcast;
        if (broadcast.is_full() || broadcast.is_scalar()) {
          input.access = broadcast.is_full() ? Access::whole : Access::scalar;
          aligned = aligned && (!broadcast.is_full() || is_aligned<kWidth>(input.x));
          continue;
        }
        // Whether no vector of the output reaches over the end of the innermost axis, nor of the outer ones then.
        const bool divides = broadcast.extent[broadcast.rank - 1] % kWidth == 0;
        const bool repeats = broadcast.stride[broadcast.rank - 1] == 0;
        input.access = !divides                      ? Access::single
                       : repeats                     ? Access::repeated
                       : is_aligned<kWidth>(input.x) ? Access::run
                                                     : Access::single;
      }
      for_each_element<kWidth>(stream, units, size, aligned, body);
    });
  });
}

}  // namespace braid::cuda
