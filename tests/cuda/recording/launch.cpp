// Kernel launches: what nvcc's code calls to register kernels, and the calls that launch them. The types of a kernel's
// parameters are read from its mangled name, so that its pointers can be written down. Pointers within structs are not
// seen.

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "tests/cuda/recording/world.h"

namespace {

using namespace braid::recording;
using Kind = Call::Kind;

constexpr std::size_t kMostDynamicShared = 48 << 10;  // unless a program asks for more

struct Function {
  std::string name;
  std::vector<bool> is_pointer;  // per parameter
};

/// Kernels by host address. They register themselves before main() starts.
std::unordered_map<const void*, Function>& functions() {
  static std::unordered_map<const void*, Function> map;
  return map;
}

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

/// The parameters in "void scale<float>(float const*, float*, long)".
std::vector<bool> pointer_parameters(const std::string& signature) {
  std::vector<bool> pointers;
  if (signature.empty() || signature.back() != ')') return pointers;
  std::size_t begin = signature.size() - 1;
  for (int depth = 1; depth > 0 && begin > 0;) {
    --begin;
    if (signature[begin] == ')') ++depth;
    if (signature[begin] == '(') --depth;
  }
  char last = ' ';
  int depth = 0;
  for (std::size_t i = begin + 1; i < signature.size(); ++i) {
    const char c = signature[i];
    if (depth == 0 && (c == ',' || i + 1 == signature.size())) {
      pointers.push_back(last == '*');
    } else if (c == '(' || c == '<' || c == '{' || c == '[') {
      ++depth;
    } else if (c == ')' || c == '>' || c == '}' || c == ']') {
      --depth;
    }
    if (c != ' ') last = c;
  }
  return pointers;
}

cudaError_t launch(std::string_view name, const void* function, dim3 grid, dim3 block, void** arguments,
                   std::size_t shared_bytes, cudaStream_t handle) {
  return cuda_call(Kind::launch, name, Needs::device, [&](World& world, Call& call) {
    CUstream_st* stream = world.stream(handle, call);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->context->device != world.current()->device) {
      world.same_context(call.function, stream->context, world.current());
      return cudaErrorInvalidResourceHandle;
    }
    const auto found = functions().find(function);
    if (found == functions().end()) return cudaErrorInvalidDeviceFunction;
    const Function& kernel = found->second;
    call.kernel = kernel.name;
    const auto threads = std::size_t{block.x} * block.y * block.z;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535 ||
        threads == 0 || threads > 1024 || block.z > 64 || shared_bytes > kMostDynamicShared) {
      return cudaErrorInvalidConfiguration;
    }
    for (std::size_t i = 0; i < kernel.is_pointer.size(); ++i) {
      if (!kernel.is_pointer[i]) continue;
      const void* pointer = nullptr;
      std::memcpy(&pointer, arguments[i], sizeof pointer);
      call.pointers.push_back({pointer, 0});
    }
    return enqueue_launch(world, call, *stream);
  });
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* binary) { return reinterpret_cast<void**>(binary); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

void __cudaRegisterFunction(void**, const char* host, char*, const char* device_name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  Function function;
  function.name = demangled(device_name);
  function.is_pointer = pointer_parameters(function.name);
  functions()[host] = std::move(function);
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

// Braid launches through cudaLaunchKernelEx alone; a launch as kernel<<<…>>> is refused.
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, CUstream_st*) {
  LockedWorld()->mistake("a kernel is launched as kernel<<<...>>>");
  return 1;
}
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) { return cudaErrorInvalidConfiguration; }

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                               cudaStream_t stream) {
  return launch(__func__, kernel, grid, block, arguments, shared_bytes, stream);
}

/// The log has the name that programs use.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return launch("cudaLaunchKernelEx", function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                config->stream);
}

}  // extern "C"
