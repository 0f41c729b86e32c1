// The scheduler's formula for the blocks of a kernel that an SM holds, against NVIDIA's, which are host code.

#include <cuda_occupancy.h>
#include <doctest/doctest.h>

#include "core/device/backend.h"
#include "core/device/block_needs.h"
#include "ops/kernels/kernels.h"
#include "scheduler/costs/known_devices.h"

namespace braid::testing {
namespace {

/// The limits of an SM, from the table of compute capabilities in the CUDA C++ programming guide.
struct Multiprocessor {
  std::string_view device;
  int major, minor, threads, shared_kib, shared_kib_of_block;
};
constexpr Multiprocessor kMultiprocessors[] = {{"p100", 6, 0, 2048, 64, 48},      {"v100", 7, 0, 2048, 96, 96},
                                               {"rtx2080ti", 7, 5, 1024, 64, 64}, {"a100", 8, 0, 2048, 164, 163},
                                               {"h100", 9, 0, 2048, 228, 227},    {"h200", 9, 0, 2048, 228, 227}};

int nvidia_resident_blocks(const Multiprocessor& sm, const BlockNeeds& needs) {
  cudaOccDeviceProp device{};
  device.computeMajor = sm.major;
  device.computeMinor = sm.minor;
  device.numSms = 100;  // does not matter
  device.warpSize = 32;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = sm.threads;
  device.regsPerBlock = device.regsPerMultiprocessor = 65536;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = static_cast<std::size_t>(sm.shared_kib) << 10;
  device.sharedMemPerBlockOptin = static_cast<std::size_t>(sm.shared_kib_of_block) << 10;
  device.reservedSharedMemPerBlock = sm.major < 8 ? 0 : 1 << 10;
  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = device.maxThreadsPerBlock;
  attributes.numRegs = needs.registers;
  attributes.sharedSizeBytes = 0;
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  attributes.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin;
  attributes.numBlockBarriers = 1;
  const cudaOccDeviceState state;
  cudaOccResult result{};
  REQUIRE(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &attributes, &state, needs.threads,
                                                  needs.shared_bytes) == CUDA_OCC_SUCCESS);
  return result.activeBlocksPerMultiprocessor;
}

}  // namespace

TEST_CASE("an SM holds as many blocks as NVIDIA's formulas say") {
  for (const Multiprocessor& sm : kMultiprocessors) {
    CAPTURE(sm.device);
    const DeviceInfo device = scheduler::known_device(sm.device);
    for (int registers = 16; registers <= 255; ++registers) {
      CAPTURE(registers);
      const BlockNeeds needs{.threads = 256, .registers = registers, .shared_bytes = 0};
      CHECK(resident_blocks(device, needs) == nvidia_resident_blocks(sm, needs));
    }
    for (const OpBlocks& row : kOpBlocks) {
      CAPTURE(row.op);
      const int blocks = nvidia_resident_blocks(sm, row.needs);
      CHECK(resident_blocks(device, row.needs) <= blocks);
      CHECK(resident_blocks(device, row.needs) >= (sm.major < 8 ? blocks - 1 : blocks));
    }
    for (const BlockNeeds& needs : {BlockNeeds{}, BlockNeeds{512, 32, 31 << 10}, BlockNeeds{1024, 32, 0}}) {
      CHECK(resident_blocks(device, needs) == nvidia_resident_blocks(sm, needs));
    }
  }
}

TEST_CASE("the occupancy of an op is that of its kernels, and an unknown op's is that of most kernels") {
  for (const std::string_view op : kernel_names(DeviceType::cuda)) {
    const bool in_library =
        op.starts_with("conv2d") || op.starts_with("linear") || op == "matmul" || op == "send" || op == "receive";
    CAPTURE(op);
    CHECK(std::ranges::count(kOpBlocks, op, &OpBlocks::op) == (in_library ? 0 : 1));
  }
  const DeviceInfo h200 = scheduler::known_device("h200");
  CHECK(resident_blocks(h200, block_needs("relu")) == 8);
  CHECK(resident_blocks(h200, block_needs("batch_norm")) == 3);
  CHECK(resident_blocks(h200, block_needs("swish")) == 5);
  CHECK(resident_blocks({}, {}) == 1);
}

}  // namespace braid::testing
