// An op that is not Braid's, with kernels registered while the program runs.

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "core/device/parallel.h"
#include "ops/common/check.h"
#include "ops/kernels/function_kernel.h"
#include "tests/ops/interpreter.h"

using namespace braid;
using namespace braid::testing;

namespace {

struct ShiftAttributes {
  double by = 0;
  static constexpr std::string_view kNames[] = {"by"};
};

/// y = x + by. The name is that of the test, which registers the kernel.
template <char kLetter>
class Shift final : public OpWith<Shift<kLetter>, ShiftAttributes> {
 public:
  using OpWith<Shift, ShiftAttributes>::OpWith;
  std::string_view name() const override {
    static constexpr char kName[] = {'t', 'e', 's', 't', '_', 's', 'h', 'i', 'f', 't', '_', kLetter};
    return {kName, std::size(kName)};
  }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override {
    check_inputs(name(), inputs, 1);
    outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape});
  }
};

template <char kLetter>
std::unique_ptr<Kernel> make_shift(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const T by = static_cast<T>(spec.attributes<Shift<kLetter>>().by);
    return function_kernel([by, size = spec.inputs[0].shape.size(), width = spec.width](auto inputs, auto outputs) {
      const T* x = at<const T>(inputs, 0);
      T* y = at<T>(outputs, 0);
      parallel_for(width, size, 2, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) y[i] = x[i] + by;
      });
    });
  });
}

}  // namespace

TEST_CASE("a registered op runs in every floating type") {
  register_kernel(DeviceType::cpu, "test_shift_a", make_shift<'a'>);
  const std::vector<std::string_view> names = kernel_names(DeviceType::cpu);
  CHECK(std::ranges::is_sorted(names));
  CHECK(std::ranges::binary_search(names, "test_shift_a"));
  const Array x = Array::from<float>({1, -2, 3.5, 8, 0.25}, {5});
  for (const int width : {1, 2}) {
    const Array y = run_op(Shift<'a'>(0.5), {x}, {.width = width})[0];
    for (std::int64_t i = 0; i < 5; ++i) CHECK(element(y, i) == element(x, i) + 0.5);
  }
  Array half(DType::f16, {2});  // the kernel computes in f32
  half.as<Half>()[0] = Half(1.5f);
  half.as<Half>()[1] = Half(-4.0f);
  const Array y = run_op(Shift<'a'>(2.0), {half})[0];
  CHECK(y.dtype() == DType::f16);
  CHECK(element(y, 0) == 3.5);
  CHECK(element(y, 1) == -2);
}

TEST_CASE("an op without a kernel is an error that says what to do") {
  const Array x = Array::scalar(1.0f);
  CHECK_THROWS_WITH_AS(run_op(Shift<'b'>(1.0), {x}),
                       "[test_shift_b] has no CPU kernel: register one with braid::register_kernel", Error);
}

TEST_CASE("a build without CUDA says so, even if a program has registered a CUDA kernel") {
  register_kernel(DeviceType::cuda, "test_shift_e", make_shift<'e'>);
  const bool with_cuda = std::ranges::binary_search(kernel_names(DeviceType::cuda), "relu");
  const ValueDesc desc{DType::f32, {3}};
  const auto make = [&] {
    make_kernel(DeviceType::cuda, {.op = Shift<'f'>(1.0), .inputs = {&desc, 1}, .outputs = {&desc, 1}});
  };
  CHECK_THROWS_WITH_AS(make(),
                       with_cuda ? "[test_shift_f] has no CUDA kernel: register one with braid::register_kernel"
                                 : "[test_shift_f] built without CUDA: use device 'cpu'",
                       Error);
}

TEST_CASE("a second kernel for an op and a device is refused, whether the first is Braid's or not") {
  register_kernel(DeviceType::cpu, "test_shift_c", make_shift<'c'>);
  CHECK_THROWS_WITH_AS(register_kernel(DeviceType::cpu, "test_shift_c", make_shift<'c'>),
                       "[test_shift_c] has a CPU kernel already: give the op another name", Error);
  CHECK_THROWS_WITH_AS(register_kernel(DeviceType::cpu, "relu", make_shift<'c'>),
                       "[relu] has a CPU kernel already: give the op another name", Error);
  register_kernel(DeviceType::cuda, "test_shift_c", make_shift<'c'>);  // another device
}

TEST_CASE("kernels may be registered, found and listed by several threads at a time") {
  register_kernel(DeviceType::cpu, "test_shift_d", make_shift<'d'>);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      const ValueDesc desc{DType::f32, {3}};
      for (int i = 0; i < 50; ++i) {
        register_kernel(DeviceType::cpu, message("test_of_thread_", t, '_', i), make_shift<'d'>);
        make_kernel(DeviceType::cpu, {.op = Shift<'d'>(1.0), .inputs = {&desc, 1}, .outputs = {&desc, 1}});
        kernel_names(DeviceType::cpu);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::string_view> names = kernel_names(DeviceType::cpu);
  CHECK(std::ranges::count_if(names, [](std::string_view name) { return name.starts_with("test_of_thread_"); }) == 200);
}
