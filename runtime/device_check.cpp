#include "runtime/device_check.h"

#include <array>
#include <cmath>
#include <map>
#include <mutex>

#include "autograd/functions.h"
#include "ops/optimizer/optimizer.h"
#include "runtime/session.h"

namespace braid {

namespace {

struct Trained {
  std::vector<double> losses;
  std::vector<Array> tensors;
};

/// Enough steps for a replay: CUDA graphs are made before the third.
constexpr int kSteps = 5;

Trained train(const Device& device) {
  Session session({.device = message(device), .streams = 2, .threads = 1, .tf32 = false});
  std::vector<Parameter*> tensors;
  const auto add = [&](std::string_view name, const Shape& shape, ValueKind kind, float mean, float deviation) {
    Array array(DType::f32, shape);
    Generator random = session.generator(name);
    for (float& element : array.as<float>()) element = mean + deviation * random.normal();
    Parameter& parameter = session.add(name, {DType::f32, shape}, kind);
    session.write(parameter, array);
    return tensors.emplace_back(&parameter);
  };
  constexpr std::int64_t kBatch = 4, kSize = 8, kIn = 8, kOut = 16, kClasses = 8;
  using enum ValueKind;
  Parameter *filter = add("filter", {kOut, 3, 3, kIn}, parameter, 0, 0.1f),
            *gamma = add("gamma", {kOut}, parameter, 1, 0.1f), *beta = add("beta", {kOut}, parameter, 0, 0.1f),
            *mean = add("mean", {kOut}, state, 0, 0), *variance = add("variance", {kOut}, state, 1, 0),
            *images = add("images", {kBatch, kSize, kSize, kIn}, parameter, 0, 1),
            *weight = add("weight", {kClasses, kOut}, parameter, 0, 0.2f);
  Array labels(DType::i32, {kBatch});
  for (std::int64_t i = 0; i < kBatch; ++i) labels.as<std::int32_t>()[static_cast<std::size_t>(i)] = i % kClasses;

  const auto update = std::make_shared<ops::SgdUpdate>(SgdOptions{});
  Trained trained;
  for (int i = 0; i < kSteps; ++i) {
    Step step = session.step();
    const Tensor x = conv2d(*images, *filter, {.padding = 1});
    const Tensor y =
        batch_norm(x, {*gamma, *beta, *mean, *variance}, {.activation = Activation::relu}, /*training=*/true);
    const Tensor loss = cross_entropy(linear(global_avg_pool(y), *weight), labels);
    backward(loss);
    const ValueId rate = Tensor(Array::scalar(0.1)).id();
    for (Parameter* tensor : tensors) {  // the images too, so that the convolution has both its gradients
      if (!tensor->trainable) continue;
      session.tape().record(update, std::array{rate, Tensor(*tensor).id(), session.tape().gradient(*tensor)});
    }
    step.run();
    trained.losses.push_back(loss.item());
  }
  for (const Parameter* tensor : tensors) trained.tensors.push_back(session.read(*tensor));
  return trained;
}

/// ‖a − b‖ / ‖b‖; NaN if a is not finite.
double distance(const Array& a, const Array& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.as<float>().size(); ++i) {
    const double x = static_cast<double>(a.as<float>()[i]), y = static_cast<double>(b.as<float>()[i]);
    difference += (x - y) * (x - y);
    size += y * y;
  }
  return std::sqrt(difference / size);
}

struct Checked {
  std::mutex mutex;
  std::map<int, std::string> faults;  // by index of the GPU
};
Checked& checked() {
  static Checked all;
  return all;
}
thread_local bool checking = false;

const std::string& first_fault(const Device& device) {
  const std::lock_guard lock(checked().mutex);
  auto known = checked().faults.find(device.index);
  if (known == checked().faults.end()) {
    make_backend(device);  // throws if there is no such device
    known = checked().faults.emplace(device.index, device_fault(device)).first;
  }
  return known->second;
}

}  // namespace

std::string device_fault(const Device& device) {
  constexpr double kTolerance = 1e-3;  // sums of some hundred products of f32, in another order
  const bool outer = std::exchange(checking, true);
  std::string fault;
  try {
    const Trained own = train(device), cpu = train({});
    for (std::size_t i = 0; i < own.losses.size() && fault.empty(); ++i) {
      if (std::abs(own.losses[i] - cpu.losses[i]) <= kTolerance * cpu.losses[i]) continue;
      fault = message("the loss of step ", i + 1, " is ", own.losses[i], ", on the CPU it is ", cpu.losses[i]);
    }
    for (std::size_t i = 0; i < own.tensors.size() && fault.empty(); ++i) {
      const double error = distance(own.tensors[i], cpu.tensors[i]);
      if (error <= kTolerance) continue;
      fault = message("tensor ", i + 1, " of ", own.tensors.size(), " differs from the CPU's by ", error,
                      " of its size after ", kSteps, " steps");
    }
  } catch (const std::exception& error) {
    fault = error.what();
  }
  checking = outer;
  return fault;
}

FoundDevice find_device(const std::string& name) {
  const Device device = Device::parse(name);
  if (device.type == DeviceType::cpu || checking) return {device, ""};
  const std::string& fault = first_fault(device);
  if (fault.empty()) return {device, ""};
  const std::string report = message(device, " does not compute what the CPU does: ", fault);
  const std::string_view advice = "Please report this with the output of 'braid devices --check'";
  if (name != "auto") throw DeviceError(message("[device] ", report, ". ", advice));
  return {Device{}, message(report, "; using the CPU instead. ", advice)};
}

void set_device_fault(const Device& device, const std::string& fault) {
  const std::lock_guard lock(checked().mutex);
  checked().faults[device.index] = fault;
}

}  // namespace braid
