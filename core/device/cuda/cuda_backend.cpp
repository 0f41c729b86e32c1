#include "core/device/cuda/cuda_backend.h"

#include <cstdlib>

#include "core/base/error.h"
#include "core/device/cuda/handle.h"
#include "core/device/cuda/loaded/libraries.h"
#include "core/device/cuda/stream_group.h"

namespace braid::cuda {

namespace {

std::string version(int number) { return message(number / 1000, '.', number % 1000 / 10); }

int attribute(cudaDeviceAttr name, int device) {
  int value = 0;
  BRAID_CUDA(cudaDeviceGetAttribute(&value, name, device));
  return value;
}

/// f32 lanes of one SM, and FLOP per clock of its tensor cores in bf16 without sparsity (NVIDIA's architecture
/// whitepapers).
struct SmRates {
  int lanes;
  int matrix_flops;
};

SmRates sm_rates(int major, int minor) {
  switch (major) {
    case 7: return {64, 1024};
    case 8: return minor == 0 ? SmRates{64, 2048} : SmRates{128, 1024};
    case 9: return {128, 4096};
    case 10: return {128, 8192};
    default: return {128, 2048};
  }
}

/// A clock in hertz. Virtual GPUs may report 0; then a typical rate of current GPUs, because planning needs costs above
/// 0.
double clock_rate(cudaDeviceAttr name, int device) {
  constexpr double kUsual = 1.5e9;
  const int kilohertz = attribute(name, device);
  return kilohertz > 0 ? 1e3 * kilohertz : kUsual;
}

DeviceInfo describe(int device) {
  DeviceInfo info;
  cudaDeviceProp properties{};
  BRAID_CUDA(cudaGetDeviceProperties(&properties, device));
  info.name = properties.name;
  info.capacity = properties.multiProcessorCount;
  info.memory_bytes = properties.totalGlobalMem;
  info.threads_per_unit = properties.maxThreadsPerMultiProcessor;
  info.shared_bytes_per_unit = properties.sharedMemPerMultiprocessor;

  const double clock = clock_rate(cudaDevAttrClockRate, device);
  const double memory_clock = clock_rate(cudaDevAttrMemoryClockRate, device);
  const double bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8.0;
  const SmRates rates = sm_rates(properties.major, properties.minor);
  const double cycles = clock * info.capacity;  // per second, of all SMs
  info.set_gpu_rates(2 * rates.lanes * cycles, rates.matrix_flops * cycles, 2 * memory_clock * bus_bytes);
  info.matrix_f16_only = properties.major < 8;
  return info;
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device) : device_(device) {
    BRAID_CUDA(cudaSetDevice(device));
    info_ = describe(device);
    stream_ = make_stream();
    // Fails if an earlier session has lost the device. Synchronising the whole device would break captures in progress.
    BRAID_CUDA(cudaStreamSynchronize(stream_));
  }

  Device device() const override { return {DeviceType::cuda, device_}; }
  const DeviceInfo& info() const override { return info_; }

  void make_current() override { BRAID_CUDA(cudaSetDevice(device_)); }
  Buffer allocate(std::size_t bytes) override {
    make_current();
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, std::max<std::size_t>(bytes, 1));
    if (status == cudaErrorMemoryAllocation) throw_out_of_memory(bytes);
    check_cuda(status, "cudaMalloc");
    Buffer buffer(data, bytes, [](void* p, std::size_t) { static_cast<void>(cudaFree(p)); });
    clear(data, bytes);
    return buffer;
  }

  void clear(void* target, std::size_t bytes) override {
    make_current();
    BRAID_CUDA(cudaMemsetAsync(target, 0, bytes, stream_));
    BRAID_CUDA(cudaStreamSynchronize(stream_));
  }

  void copy_to_device(void* target, const void* source, std::size_t bytes) override {
    copy(target, source, bytes, cudaMemcpyHostToDevice);
  }
  void copy_to_host(void* target, const void* source, std::size_t bytes) override {
    copy(target, source, bytes, cudaMemcpyDeviceToHost);
  }
  std::unique_ptr<StreamGroup> make_streams(const StreamOptions& options) override {
    return std::make_unique<CudaStreamGroup>(device_, options);
  }

 private:
  void copy(void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return;
    make_current();
    BRAID_CUDA(cudaMemcpyAsync(target, source, bytes, kind, stream_));
    BRAID_CUDA(cudaStreamSynchronize(stream_));
  }

  [[noreturn]] void throw_out_of_memory(std::size_t bytes) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    BRAID_CUDA(cudaMemGetInfo(&free, &total));
    throw OutOfMemory(message("[cuda:", device_, "] out of memory: needed ", bytes, " bytes, ", free, " of ", total,
                              " are free. Use a smaller batch, fewer streams or a lower precision"));
  }

  int device_;
  DeviceInfo info_;
  StreamHandle stream_;  // for copies outside of steps
};

}  // namespace

std::string unavailable_reason() {
  int driver = 0, runtime = 0, count = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  if (driver == 0) return "no NVIDIA driver was found on this machine";
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (is_sticky(status)) return {};  // the next call that uses a lost device reports it
  if (status == cudaSuccess && count > 0) return missing_library();
  if (status == cudaErrorInsufficientDriver) {
    return message("the driver knows CUDA ", version(driver), ", this build needs ", version(runtime),
                   ": update the driver");
  }
  if (status == cudaErrorNoDevice || status == cudaSuccess) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible != nullptr) return message("no GPU is visible: CUDA_VISIBLE_DEVICES is '", visible, "'");
    return "this machine has no GPU that CUDA can use";
  }
  return message("CUDA does not start: ", cudaGetErrorString(status));
}

int device_count() {
  int count = 0;
  if (unavailable_reason().empty()) BRAID_CUDA(cudaGetDeviceCount(&count));
  return count;
}

std::unique_ptr<Backend> make_backend(int index) {
  const std::string reason = unavailable_reason();
  BRAID_CHECK(reason.empty(), DeviceError, "[cuda:", index, "] ", reason, ". Use device 'cpu'");
  BRAID_CHECK(index < device_count(), DeviceError, "[cuda:", index, "] there are ", device_count(),
              " GPUs, counted from 0");
  return std::make_unique<CudaBackend>(index);
}

}  // namespace braid::cuda
