#include "ops/optimizer/assign.h"

#include <cstring>

#include "ops/kernels/function_kernel.h"

namespace braid::cpu {

Implementations make_assign(const KernelSpec& spec) {
  std::vector<std::size_t> bytes;
  for (const ValueDesc& y : spec.outputs) bytes.push_back(y.bytes());
  return function_kernel([bytes](auto inputs, auto outputs) {
    for (std::size_t i = 0; i < bytes.size(); ++i) std::memcpy(outputs[i], inputs[2 * i + 1], bytes[i]);
  });
}

}  // namespace braid::cpu
