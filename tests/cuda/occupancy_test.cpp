#include "core/cuda/occupancy.h"

#include <doctest/doctest.h>

#include "core/backend.h"
#include "core/error.h"
#include "scheduler/costs/known_devices.h"
#include "tests/cuda/recording/recording.h"

namespace braid::testing {
namespace {

using cuda::BlockNeeds;
using cuda::resident_blocks;

/// The limits of an SM, from the table of compute capabilities in the CUDA C++ programming guide.
cudaDeviceProp multiprocessor(int major, int minor, std::size_t shared_kib, std::size_t shared_kib_of_block) {
  cudaDeviceProp device{};
  device.major = major;
  device.minor = minor;
  device.multiProcessorCount = 100;  // does not matter
  device.warpSize = 32;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiProcessor = 2048;
  device.regsPerBlock = device.regsPerMultiprocessor = 65536;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = shared_kib << 10;
  device.sharedMemPerBlockOptin = shared_kib_of_block << 10;
  device.reservedSharedMemPerBlock = 1 << 10;
  return device;
}
const cudaDeviceProp kA100 = multiprocessor(8, 0, 164, 163), kH100 = multiprocessor(9, 0, 228, 227),
                     kB200 = multiprocessor(10, 0, 228, 227);

}  // namespace

TEST_CASE("an SM holds as many blocks as its warps, registers, shared memory and block slots allow") {
  for (const cudaDeviceProp& device : {kA100, kH100, kB200}) {
    CAPTURE(device.major);
    // 64 warps, in blocks of 8.
    CHECK(resident_blocks(device, {.threads = 256, .registers = 32, .shared_bytes = 0}) == 8);
    CHECK(resident_blocks(device, {.threads = 1024, .registers = 32, .shared_bytes = 0}) == 2);
    // 65,536 registers, which a warp gets in units of 256.
    CHECK(resident_blocks(device, {.threads = 256, .registers = 33, .shared_bytes = 0}) == 6);
    CHECK(resident_blocks(device, {.threads = 256, .registers = 64, .shared_bytes = 0}) == 4);
    CHECK(resident_blocks(device, {.threads = 256, .registers = 128, .shared_bytes = 0}) == 2);
    CHECK(resident_blocks(device, {.threads = 256, .registers = 255, .shared_bytes = 0}) == 1);
    // 32 blocks, however small.
    CHECK(resident_blocks(device, {.threads = 32, .registers = 16, .shared_bytes = 0}) == 32);
  }
  // Shared memory, of which every block costs 1 KiB more: 164 KiB and 228 KiB.
  CHECK(resident_blocks(kA100, {.threads = 256, .registers = 32, .shared_bytes = 31 << 10}) == 5);
  CHECK(resident_blocks(kH100, {.threads = 256, .registers = 32, .shared_bytes = 31 << 10}) == 7);
  CHECK(resident_blocks(kB200, {.threads = 256, .registers = 32, .shared_bytes = 227 << 10}) == 1);
  CHECK(resident_blocks(kA100, {.threads = 256, .registers = 32, .shared_bytes = 163 << 10}) == 1);
}

TEST_CASE("a block that does not fit gives 0, and an unknown architecture is an error") {
  CHECK(resident_blocks(kA100, {.threads = 256, .registers = 32, .shared_bytes = 164 << 10}) == 0);
  CHECK(resident_blocks(kH100, {.threads = 1024, .registers = 255, .shared_bytes = 0}) == 0);
  CHECK_THROWS_WITH_AS(resident_blocks(multiprocessor(99, 1, 228, 227), {}),
                       doctest::Contains("no occupancy is known for compute capability 99.1 and blocks of 256"),
                       DeviceError);
  CHECK_THROWS_AS(resident_blocks(kH100, {.threads = 0}), DeviceError);
}

TEST_CASE("a device knows how many blocks of Braid's own kernels its SMs hold") {
  recording::reset();
  const auto backend = make_backend({DeviceType::cuda, 0});
  CHECK(backend->info().blocks_per_unit == 5);
  CHECK(scheduler::known_device("h200").blocks_per_unit == 5);
}

}  // namespace braid::testing
