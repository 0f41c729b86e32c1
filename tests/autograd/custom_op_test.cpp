// An op that is not Braid's: applied, differentiated, checked, and learnt with.

#include <doctest/doctest.h>

#include "autograd/gradient_check.h"
#include "braid/op.h"
#include "runtime/session.h"

namespace braid {
namespace {

struct PowerAttributes {
  int exponent = 2;
  static constexpr std::string_view kNames[] = {"exponent"};
};

/// y = x^exponent
class Power final : public OpWith<Power, PowerAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "test_power"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override {
    check_inputs(name(), inputs, 1);
    outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape});
  }
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
};

/// dy, x → dx
class PowerBackward final : public OpWith<PowerBackward, PowerAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "test_power_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override {
    check_inputs(name(), inputs, 2);
    outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape, .reuses = 0});
  }
};

void Power::gradient(GradientContext& context) const {
  if (!context.needs(0)) return;
  context.set_input_gradient(
      0, context.record(std::make_shared<PowerBackward>(attributes()), {context.output_gradient(0), context.input(0)}));
}

template <class T>
T product(T x, int exponent) {
  T result = 1;
  for (int i = 0; i < exponent; ++i) result *= x;
  return result;
}

std::unique_ptr<Kernel> make_power(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    return function_kernel([exponent = spec.attributes<Power>().exponent, size = spec.inputs[0].shape.size(),
                            width = spec.width](auto inputs, auto outputs) {
      const T* x = at<const T>(inputs, 0);
      T* y = at<T>(outputs, 0);
      parallel_for(width, size, 64, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) y[i] = product(x[i], exponent);
      });
    });
  });
}

std::unique_ptr<Kernel> make_power_backward(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const int exponent = spec.attributes<PowerBackward>().exponent;
    return function_kernel([exponent, size = spec.inputs[0].shape.size()](auto inputs, auto outputs) {
      const T *dy = at<const T>(inputs, 0), *x = at<const T>(inputs, 1);
      T* dx = at<T>(outputs, 0);
      for (std::int64_t i = 0; i < size; ++i) dx[i] = dy[i] * static_cast<T>(exponent) * product(x[i], exponent - 1);
    });
  });
}

Tensor power(const Tensor& x, int exponent) {
  static const bool registered = [] {
    register_kernel(DeviceType::cpu, "test_power", make_power);
    register_kernel(DeviceType::cpu, "test_power_backward", make_power_backward);
    return true;
  }();
  static_cast<void>(registered);
  return apply_op(std::make_shared<Power>(exponent), {x});
}

/// Records loss = cross_entropy(w² | w³) and, if wanted, its gradient.
double run(Session& session, Parameter& w, std::vector<Array>* gradients) {
  const Step step = session.step();
  const Tensor branches[] = {power(w, 2), power(w, 3)};
  const Tensor loss = cross_entropy(concat(branches), Array::from<std::int32_t>({1, 4}, {2}));
  if (gradients != nullptr) {
    backward(loss);
    gradients->push_back(gradient(w).keep().array());
  }
  return loss.item();
}

Parameter& add_weights(Session& session) {
  Parameter& w = session.add("w", {DType::f64, {2, 3}}, ValueKind::parameter);
  session.write(w, Array::from<double>({0.5, -1, 1.5, 0.25, -0.75, 2}, {2, 3}));
  return w;
}

TEST_CASE("the gradient of a custom op agrees with difference quotients") {
  for (const int streams : {1, 2}) {
    Session session({.device = "cpu", .streams = streams, .intra_op_threads = 1});
    Parameter& w = add_weights(session);
    Parameter* const parameters[] = {&w};
    CHECK(check_gradients(session, parameters,
                          [&](std::vector<Array>* gradients) { return run(session, w, gradients); }) == "");
  }
}

TEST_CASE("steps that differ in an attribute of a custom op have different plans") {
  Session session({.device = "cpu", .streams = 1});
  const auto raised = [&](int exponent) {
    const Step step = session.step();
    return power(Tensor(Array::scalar(3.0)), exponent).item();
  };
  CHECK(raised(2) == 9);
  CHECK(raised(3) == 27);
  CHECK(raised(2) == 9);
  CHECK(session.stats().plans == 2);
}

}  // namespace
}  // namespace braid
