#pragma once
// Devices with round numbers.

#include "core/device/device.h"

namespace braid::scheduler::testing {

inline DeviceInfo four_cores() {
  return {.name = "four cores",
          .capacity = 4,
          .flops_per_unit = 1e9,
          .bytes_per_second = 2.5e9,
          .bytes_per_second_unit = 1e9,
          .launch_seconds = 1e-6,
          .fork_seconds = 2e-6,
          .max_width = 4};
}

inline DeviceInfo ten_multiprocessors() {
  return {.name = "ten multiprocessors",
          .capacity = 10,
          .flops_per_unit = 1e9,
          .bytes_per_second = 5e9,
          .bytes_per_second_unit = 1e9,
          .launch_seconds = 1e-6,
          .oversubscribes = true};
}

}  // namespace braid::scheduler::testing
