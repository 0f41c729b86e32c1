#pragma once
// cuDNN's graph API consists of descriptors with attributes. This wraps one of them. It is all that Braid needs of a
// C++ front end, and unlike NVIDIA's header-only one it compiles in a second and hides nothing.

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/device/cuda/handle.h"

namespace braid::cuda {

/// The type by which cuDNN knows attributes of type T.
template <class T>
struct AttributeType;
#define BRAID_ATTRIBUTE_TYPE(Type, name)                       \
  template <>                                                  \
  struct AttributeType<Type> {                                 \
    static constexpr cudnnBackendAttributeType_t value = name; \
  }
BRAID_ATTRIBUTE_TYPE(bool, CUDNN_TYPE_BOOLEAN);
BRAID_ATTRIBUTE_TYPE(char, CUDNN_TYPE_CHAR);
BRAID_ATTRIBUTE_TYPE(std::int32_t, CUDNN_TYPE_INT32);
BRAID_ATTRIBUTE_TYPE(std::int64_t, CUDNN_TYPE_INT64);
BRAID_ATTRIBUTE_TYPE(float, CUDNN_TYPE_FLOAT);
BRAID_ATTRIBUTE_TYPE(double, CUDNN_TYPE_DOUBLE);
BRAID_ATTRIBUTE_TYPE(cudnnHandle_t, CUDNN_TYPE_HANDLE);
BRAID_ATTRIBUTE_TYPE(cudnnDataType_t, CUDNN_TYPE_DATA_TYPE);
BRAID_ATTRIBUTE_TYPE(cudnnConvolutionMode_t, CUDNN_TYPE_CONVOLUTION_MODE);
BRAID_ATTRIBUTE_TYPE(cudnnPointwiseMode_t, CUDNN_TYPE_POINTWISE_MODE);
BRAID_ATTRIBUTE_TYPE(cudnnBackendHeurMode_t, CUDNN_TYPE_HEUR_MODE);
BRAID_ATTRIBUTE_TYPE(cudnnBackendKnobType_t, CUDNN_TYPE_KNOB_TYPE);
BRAID_ATTRIBUTE_TYPE(cudnnBackendNumericalNote_t, CUDNN_TYPE_NUMERICAL_NOTE);
BRAID_ATTRIBUTE_TYPE(cudnnBackendBehaviorNote_t, CUDNN_TYPE_BEHAVIOR_NOTE);
BRAID_ATTRIBUTE_TYPE(cudnnBackendDescriptor_t, CUDNN_TYPE_BACKEND_DESCRIPTOR);
#undef BRAID_ATTRIBUTE_TYPE

/// Owns a backend descriptor. Calls throw DeviceError on failure.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    BRAID_CUDNN(cudnnBackendCreateDescriptor(type, &made));
    descriptor_ = BackendHandle(made);
  }

  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }
  explicit operator bool() const { return get() != nullptr; }

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    BRAID_CUDNN(cudnnBackendSetAttribute(descriptor_, name, AttributeType<T>::value,
                                         static_cast<std::int64_t>(values.size()), values.data()));
    return *this;
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return set(name, std::span<const T>(&value, 1));
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) { return set(name, value.get()); }
  /// Device addresses. (A descriptor is a void* too, so the type does not distinguish them.)
  Descriptor& set_addresses(cudnnBackendAttributeName_t name, std::span<void* const> addresses) {
    BRAID_CUDNN(cudnnBackendSetAttribute(descriptor_, name, CUDNN_TYPE_VOID_PTR,
                                         static_cast<std::int64_t>(addresses.size()), addresses.data()));
    return *this;
  }
  /// No attribute may be set afterwards.
  Descriptor& finalize() {
    BRAID_CUDNN(cudnnBackendFinalize(descriptor_));
    return *this;
  }

  template <class T>
  T get(cudnnBackendAttributeName_t name) const {
    T value{};
    std::int64_t count = 0;
    BRAID_CUDNN(cudnnBackendGetAttribute(descriptor_, name, AttributeType<T>::value, 1, &count, &value));
    return value;
  }
  /// All values of an attribute that has several; at most `most`.
  template <class T>
  std::vector<T> get_all(cudnnBackendAttributeName_t name, std::int64_t most) const {
    std::vector<T> values(static_cast<std::size_t>(most));
    std::int64_t count = 0;
    BRAID_CUDNN(cudnnBackendGetAttribute(descriptor_, name, AttributeType<T>::value, most, &count, values.data()));
    values.resize(static_cast<std::size_t>(std::min(count, most)));
    return values;
  }
  /// Descriptors that an attribute consists of: cuDNN fills ones that the caller made.
  std::vector<Descriptor> get_all(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                  std::int64_t most) const {
    std::vector<Descriptor> owned;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (std::int64_t i = 0; i < most; ++i) raw.push_back(owned.emplace_back(type).get());
    std::int64_t count = 0;
    BRAID_CUDNN(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, raw.data()));
    owned.resize(static_cast<std::size_t>(std::min(count, most)));
    return owned;
  }
  Descriptor get(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) const {
    return std::move(get_all(name, type, 1).at(0));
  }
  std::int64_t count(cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type = CUDNN_TYPE_BACKEND_DESCRIPTOR) const {
    std::int64_t count = 0;
    BRAID_CUDNN(cudnnBackendGetAttribute(descriptor_, name, type, 0, &count, nullptr));
    return count;
  }

 private:
  using BackendHandle = Handle<cudnnBackendDescriptor_t, cudnnBackendDestroyDescriptor>;
  BackendHandle descriptor_;
};

}  // namespace braid::cuda
