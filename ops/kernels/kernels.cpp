#include "ops/kernels/kernels.h"

#include <map>
#include <mutex>
#include <shared_mutex>

#include "ops/kernels/cpu/low_precision.h"
#include "ops/kernels/own_kernels.h"

namespace braid {

namespace cuda {  // folders called cuda, or ops/kernels/cuda/unavailable.cpp
std::string device_properties(int index);
}

namespace {

struct Registered {
  KernelFactory factory;
  KernelTraits traits;
};

/// All kernels of one device. Nothing is ever unregistered.
class Registry {
 public:
  static Registry& of(DeviceType device) {
    static Registry on_cpu(DeviceType::cpu, cpu::own_kernels()), on_cuda(DeviceType::cuda, cuda::own_kernels());
    return device == DeviceType::cpu ? on_cpu : on_cuda;
  }

  void add(std::string op, KernelFactory factory, KernelTraits traits) {
    const std::unique_lock lock(mutex_);
    const auto [found, is_new] = kernels_.try_emplace(std::move(op), Registered{std::move(factory), traits});
    BRAID_CHECK(is_new, Error, "[", found->first, "] has a ", name(), " kernel already: give the op another name");
  }

  const Registered& find(std::string_view op) const {
    const std::shared_lock lock(mutex_);
    const auto found = kernels_.find(op);
    if (found != kernels_.end()) return found->second;
    BRAID_CHECK(has_own_, DeviceError, "[", op, "] built without CUDA: use device 'cpu'");
    throw Error(message("[", op, "] has no ", name(), " kernel: register one with braid::register_kernel"));
  }

  std::vector<std::string_view> names() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::string_view> names;
    for (const auto& [op, registered] : kernels_) names.push_back(op);
    return names;
  }

 private:
  Registry(DeviceType device, std::span<const OwnKernel> own) : device_(device), has_own_(!own.empty()) {
    for (const auto& [op, factory, traits] : own) add(std::string(op), factory, traits);
  }
  std::string_view name() const { return device_ == DeviceType::cpu ? "CPU" : "CUDA"; }

  DeviceType device_;
  bool has_own_;  // Braid's kernels; false without CUDA, whatever a program has registered
  mutable std::shared_mutex mutex_;
  std::map<std::string, Registered, std::less<>> kernels_;
};

}  // namespace

void register_kernel(DeviceType device, std::string op, KernelFactory factory, KernelTraits traits) {
  Registry::of(device).add(std::move(op), std::move(factory), traits);
}

Implementations make_implementations(DeviceType device, const KernelSpec& spec) {
  const auto& [factory, traits] = Registry::of(device).find(spec.op.name());
  const bool converts = device == DeviceType::cpu && !traits.takes_low_precision && cpu::is_low_precision(spec);
  return converts ? cpu::make_low_precision(spec, factory) : factory(spec);
}

std::unique_ptr<Kernel> make_kernel(DeviceType device, const KernelSpec& spec) {
  return std::move(make_implementations(device, spec).front().kernel);
}

std::string device_properties(const Device& device) {
  return device.type == DeviceType::cuda ? cuda::device_properties(device.index) : std::string();
}

std::vector<std::string_view> kernel_names(DeviceType device) { return Registry::of(device).names(); }

}  // namespace braid
