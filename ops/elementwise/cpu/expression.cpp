// An expression is evaluated over blocks of the output that stay in the first cache, with one vectorised loop per
// instruction. Inputs that are broadcast are copied into such a block first.

#include "ops/elementwise/expression.h"

#include "ops/elementwise/expression_program.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cpu {

namespace {

constexpr std::int64_t kExpressionBlock = 512;

template <Function kFunction, class T>
void run_function(std::int64_t size, const T* a, const T* b, T* to) {
  for_each_element(0, size, [=](std::int64_t i) { to[i] = functions::evaluate<kFunction>(a[i], b[i]); });
}

template <class T>
using FunctionLoop = void (*)(std::int64_t size, const T* a, const T* b, T* to);

template <class T>
FunctionLoop<T> loop_of(Function function) {
#define BRAID_LOOP(name, arity) run_function<Function::name, T>,
  static constexpr FunctionLoop<T> kLoops[] = {BRAID_FOR_EACH_FUNCTION(BRAID_LOOP)};
#undef BRAID_LOOP
  return kLoops[static_cast<std::size_t>(function)];
}

/// Elements [begin, begin + size) of the output's places, from an input that is broadcast.
template <class T>
void copy_broadcast(const Broadcast& broadcast, const T* x, std::int64_t begin, std::int64_t size, T* to) {
  std::int64_t place[Shape::kMaxRank] = {}, offset = 0;
  for (int axis = broadcast.rank; axis-- > 0;) {
    place[axis] = begin % broadcast.extent[axis];
    begin /= broadcast.extent[axis];
    offset += place[axis] * broadcast.stride[axis];
  }
  const int inner = broadcast.rank - 1;
  while (size > 0) {
    const std::int64_t run = std::min(size, broadcast.extent[inner] - place[inner]);
    if (broadcast.stride[inner] == 0) {
      for (std::int64_t i = 0; i < run; ++i) to[i] = x[offset];
    } else {
      for (std::int64_t i = 0; i < run; ++i) to[i] = x[offset + i];
    }
    to += run;
    size -= run;
    offset -= place[inner] * broadcast.stride[inner];
    place[inner] = 0;
    for (int axis = inner; axis-- > 0;) {
      offset += broadcast.stride[axis];
      if (++place[axis] < broadcast.extent[axis]) break;
      offset -= place[axis] * broadcast.stride[axis];
      place[axis] = 0;
    }
  }
}

template <class T>
class ExpressionBlocks {
 public:
  explicit ExpressionBlocks(const KernelSpec& spec) : program_(spec.attributes<ops::Elementwise>().expression) {
    const Shape& shape = spec.outputs[0].shape;
    for (std::size_t i = 0; i < spec.inputs.size(); ++i) broadcasts_[i] = Broadcast(spec.inputs[i].shape, shape);
    for (int i = 0; i < program_.count; ++i) loops_[i] = loop_of<T>(program_.steps[i].function);
  }

  /// Elements [begin, end) of the output.
  void run(std::span<void* const> inputs, T* y, std::int64_t begin, std::int64_t end) const {
    alignas(64) T blocks[ExpressionProgram::kSlot + ExpressionProgram::kMaxSlots][kExpressionBlock];
    const T* operands[ExpressionProgram::kSlot + ExpressionProgram::kMaxSlots];
    for (int i = ExpressionProgram::kConstant; i < program_.constant_end(); ++i) {
      std::fill_n(blocks[i], kExpressionBlock, static_cast<T>(program_.constants[i - ExpressionProgram::kConstant]));
      operands[i] = blocks[i];
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (broadcasts_[i].is_scalar()) std::fill_n(blocks[i], kExpressionBlock, *at<const T>(inputs, i));
      operands[i] = blocks[i];
    }
    for (int i = 0; i < program_.slots; ++i)
      operands[ExpressionProgram::kSlot + i] = blocks[ExpressionProgram::kSlot + i];

    for (; begin < end; begin += kExpressionBlock) {
      const std::int64_t size = std::min(kExpressionBlock, end - begin);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const T* x = at<const T>(inputs, i);
        if (broadcasts_[i].is_scalar()) continue;
        if (broadcasts_[i].is_full()) {
          operands[i] = x + begin;
        } else {
          copy_broadcast(broadcasts_[i], x, begin, size, blocks[i]);
        }
      }
      for (int i = 0; i < program_.count; ++i) {
        const ExpressionProgram::Step& step = program_.steps[i];
        T* const to = i + 1 == program_.count ? y + begin : blocks[ExpressionProgram::kSlot + step.slot];
        loops_[i](size, operands[step.a], operands[step.b], to);
      }
      if (program_.count == 0) std::copy_n(operands[0], size, y + begin);
    }
  }

 private:
  ExpressionProgram program_;
  Broadcast broadcasts_[ops::Expression::kMaxInputs];
  FunctionLoop<T> loops_[ops::Expression::kMaxInstructions] = {};
};

}  // namespace

Implementations make_elementwise(const KernelSpec& spec) {
  return for_float_type(spec, spec.outputs[0].dtype, [&]<class T>() {
    const std::int64_t size = spec.outputs[0].shape.size();
    return function_kernel([blocks = ExpressionBlocks<T>(spec), size, width = spec.width](auto inputs, auto outputs) {
      parallel_for(width, size, kElementGrain,
                   [&](std::int64_t begin, std::int64_t end) { blocks.run(inputs, at<T>(outputs, 0), begin, end); });
    });
  });
}

}  // namespace braid::cpu
