#include "scheduler/costs/known_devices.h"

#include <cmath>

#include "core/base/error.h"
#include "core/text/json.h"
#include "core/text/text.h"

namespace braid::scheduler {
namespace {

/// What cuDNN needs to know about a device, with NVIDIA's public figures for the H200 SXM.
constexpr std::string_view kH200Properties = R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0,
  "multiProcessorCount": 132, "warpSize": 32, "maxThreadsPerSM": 2048, "maxThreadsPerBlock": 1024, "maxCtasPerSM": 32,
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 62914560,
  "totalGlobalMem": 150754820096, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
  "maxBlockSize": [1024, 1024, 64], "maxGridSize": [2147483647, 65535, 65535], "isTccDriver": 0, "supportCoopLaunch": 1
})";

/// What NVIDIA publishes about a GPU: its data sheet and the whitepaper on its architecture.
struct PublicFigures {
  std::string_view key, name;
  int multiprocessors;
  double gigabytes, bytes_per_second;  ///< memory
  double flops;                        ///< in f32, at the boost clock
  double matrix_flops;                 ///< in f16, dense, with f32 sums
  bool matrix_f16_only;                ///< before Ampere: neither bf16 nor tf32
  int threads, shared_kib;             ///< limits of an SM
  std::string_view properties = {};    ///< for cuDNN
};

constexpr PublicFigures kDevices[] = {
    // "NVIDIA Tesla P100" whitepaper (WP-08019), table 1: SXM2. Its f16 units do two operations in a lane; there are no
    // tensor cores.
    {"p100", "NVIDIA P100", 56, 16, 732e9, 10.6e12, 21.2e12, true, 2048, 64},
    // "NVIDIA Quadro P4000" data sheet (2017): 1792 cores. It computes f16 no faster than f32.
    {"p4000", "NVIDIA Quadro P4000", 14, 8, 243e9, 5.3e12, 5.3e12, true, 2048, 96},
    // "NVIDIA Tesla V100 GPU architecture" whitepaper (WP-08608), table 1: SXM2, 16 GB.
    {"v100", "NVIDIA V100", 80, 16, 900e9, 15.7e12, 125e12, true, 2048, 96},
    // "NVIDIA Turing GPU architecture" whitepaper (WP-09183), table 1: reference clock. An SM holds 1024 threads, half
    // as many as that of a V100.
    {"rtx2080ti", "NVIDIA GeForce RTX 2080 Ti", 68, 11, 616e9, 13.4e12, 53.8e12, true, 1024, 64},
    // "NVIDIA A100 Tensor Core GPU architecture" whitepaper, table 4: SXM4, 40 GB.
    {"a100", "NVIDIA A100", 108, 40, 1555e9, 19.5e12, 312e12, false, 2048, 164},
    // "NVIDIA H100 Tensor Core GPU architecture" whitepaper and data sheet: SXM5.
    {"h100", "NVIDIA H100", 132, 80, 3.35e12, 66.9e12, 989.4e12, false, 2048, 228},
    // "NVIDIA H200 Tensor Core GPU" data sheet: SXM.
    {"h200", "NVIDIA H200", 132, 150.754820096, 4.8e12, 67e12, 989e12, false, 2048, 228, kH200Properties},
};

DeviceInfo describe(const PublicFigures& gpu) {
  DeviceInfo info{.name = std::string(gpu.name),
                  .capacity = gpu.multiprocessors,
                  .memory_bytes = static_cast<std::uint64_t>(std::llround(1e9 * gpu.gigabytes)),
                  .matrix_f16_only = gpu.matrix_f16_only,
                  .threads_per_unit = gpu.threads,
                  .shared_bytes_per_unit = static_cast<std::size_t>(gpu.shared_kib) << 10,
                  .properties = std::string(gpu.properties)};
  info.set_gpu_rates(gpu.flops, gpu.matrix_flops, gpu.bytes_per_second);
  return info;
}

DeviceInfo device_from(const JsonPart& json) {
  constexpr std::int64_t kMostUnits = 1 << 20, kMostBytes = std::int64_t{1} << 53;
  DeviceInfo device;
  device.name = json["name"].text();
  device.capacity = static_cast<int>(json["capacity"].integer(1, kMostUnits));
  device.memory_bytes = static_cast<std::uint64_t>(json["memory_bytes"].integer(0, kMostBytes));
  device.flops_per_unit = json["flops_per_unit"].number(1);
  device.matrix_flops_per_unit = json["matrix_flops_per_unit"].number(0);
  device.matrix_f16_only = json["matrix_f16_only"].flag();
  device.bytes_per_second = json["bytes_per_second"].number(1);
  device.bytes_per_second_unit = json["bytes_per_second_unit"].number(1);
  device.launch_seconds = json["launch_seconds"].number(0);
  device.fork_seconds = json["fork_seconds"].number(0);
  device.max_width = static_cast<int>(json["max_width"].integer(1, kMostUnits));
  device.oversubscribes = json["oversubscribes"].flag();
  device.avx512 = json.json.contains("avx512") && json["avx512"].flag();  // absent in older files
  device.threads_per_unit = static_cast<int>(json["threads_per_unit"].integer(0, kMostUnits));
  device.shared_bytes_per_unit = static_cast<std::size_t>(json["shared_bytes_per_unit"].integer(0, kMostUnits));
  const JsonPart properties = json["properties"];
  if (!properties.json.is_object() && !properties.json.is_null()) properties.fail("must be an object or null");
  if (properties.json.is_object()) device.properties = properties.json.dump();
  const Json written = parse_json(to_json(device));
  for (const Json::Member& member : json.json.members()) {
    if (!written.contains(member.key)) throw JsonError(message("unknown key '", member.key, "'"));
  }
  return device;
}

}  // namespace

DeviceInfo known_device(std::string_view name) {
  for (const PublicFigures& gpu : kDevices) {
    if (gpu.key == name) return describe(gpu);
  }
  throw Error(message("[device] expected one of ", comma_list(known_device_names()), ", got '", name, "'"));
}

std::vector<std::string> known_device_names() {
  std::vector<std::string> names;
  for (const PublicFigures& gpu : kDevices) names.emplace_back(gpu.key);
  return names;
}

std::string to_json(const DeviceInfo& device) {
  Json json = {{"name", device.name},
               {"capacity", device.capacity},
               {"memory_bytes", device.memory_bytes},
               {"flops_per_unit", device.flops_per_unit},
               {"matrix_flops_per_unit", device.matrix_flops_per_unit},
               {"matrix_f16_only", device.matrix_f16_only},
               {"bytes_per_second", device.bytes_per_second},
               {"bytes_per_second_unit", device.bytes_per_second_unit},
               {"launch_seconds", device.launch_seconds},
               {"fork_seconds", device.fork_seconds},
               {"max_width", device.max_width},
               {"oversubscribes", device.oversubscribes},
               {"avx512", device.avx512},
               {"threads_per_unit", device.threads_per_unit},
               {"shared_bytes_per_unit", device.shared_bytes_per_unit},
               {"properties", nullptr}};
  if (!device.properties.empty()) json["properties"] = parse_json(device.properties);
  return json.dump(2);
}

DeviceInfo device_from_json(std::string_view text) {
  try {
    const Json json = parse_json(text);
    return device_from({json});
  } catch (const JsonError& error) {
    throw Error(message("[device] ", error.what()));
  }
}

}  // namespace braid::scheduler
