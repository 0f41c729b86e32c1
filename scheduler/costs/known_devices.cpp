#include "scheduler/costs/known_devices.h"

#include <cmath>

#include "core/base/error.h"
#include "core/text/json.h"
#include "core/text/suggestion.h"

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
                  .memory_bytes = static_cast<std::size_t>(std::llround(1e9 * gpu.gigabytes)),
                  .matrix_f16_only = gpu.matrix_f16_only,
                  .threads_per_unit = gpu.threads,
                  .shared_bytes_per_unit = static_cast<std::size_t>(gpu.shared_kib) << 10,
                  .properties = std::string(gpu.properties)};
  info.set_gpu_rates(gpu.flops, gpu.matrix_flops, gpu.bytes_per_second);
  return info;
}

/// Removes the keys that it reads from an object, so that any key left at the end is unknown.
class Reader {
 public:
  explicit Reader(std::string_view text) : json_(parse_json(text)) {
    BRAID_CHECK(json_.is_object(), Error, "[device] expected a JSON object that describes a device");
  }
  Json take(const char* key) {
    BRAID_CHECK(json_.contains(key), Error, "[device] the key '", key, "' is missing");
    Json value = std::move(json_[key]);
    json_.erase(key);
    return value;
  }
  double number(const char* key, double least) {
    const Json value = take(key);
    BRAID_CHECK(value.is_number() && std::isfinite(value.as_double()) && value.as_double() >= least, Error,
                "[device] '", key, "' must be a number of at least ", least, ", got ", value.dump());
    return value.as_double();
  }
  std::int64_t integer(const char* key, double least, std::int64_t most) {
    const double value = number(key, least);
    BRAID_CHECK(value == std::floor(value) && value <= static_cast<double>(most), Error, "[device] '", key,
                "' must be an integer up to ", most, ", got ", value);
    return static_cast<std::int64_t>(value);
  }
  int units(const char* key, double least = 1) { return static_cast<int>(integer(key, least, 1 << 20)); }
  bool flag(const char* key) {
    const Json value = take(key);
    BRAID_CHECK(value.is_bool(), Error, "[device] '", key, "' must be true or false, got ", value.dump());
    return value.as_bool();
  }
  void finish() const { BRAID_CHECK(json_.empty(), Error, "[device] unknown key '", json_.members().front().key, "'"); }

 private:
  Json json_;
};

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
               {"threads_per_unit", device.threads_per_unit},
               {"shared_bytes_per_unit", device.shared_bytes_per_unit},
               {"properties", nullptr}};
  if (!device.properties.empty()) json["properties"] = parse_json(device.properties);
  return json.dump(2);
}

DeviceInfo device_from_json(std::string_view text) {
  Reader reader(text);
  DeviceInfo device;
  const Json name = reader.take("name"), properties = reader.take("properties");
  BRAID_CHECK(name.is_string(), Error, "[device] 'name' must be a string, got ", name.dump());
  BRAID_CHECK(properties.is_object() || properties.is_null(), Error,
              "[device] 'properties' must be an object or null, got ", properties.dump());
  device.name = name.text();
  device.capacity = reader.units("capacity");
  device.memory_bytes = static_cast<std::size_t>(reader.integer("memory_bytes", 0, std::int64_t{1} << 53));
  device.flops_per_unit = reader.number("flops_per_unit", 1);
  device.matrix_flops_per_unit = reader.number("matrix_flops_per_unit", 0);
  device.bytes_per_second = reader.number("bytes_per_second", 1);
  device.bytes_per_second_unit = reader.number("bytes_per_second_unit", 1);
  device.launch_seconds = reader.number("launch_seconds", 0);
  device.fork_seconds = reader.number("fork_seconds", 0);
  device.max_width = reader.units("max_width");
  device.matrix_f16_only = reader.flag("matrix_f16_only");
  device.oversubscribes = reader.flag("oversubscribes");
  device.threads_per_unit = reader.units("threads_per_unit", 0);
  device.shared_bytes_per_unit = static_cast<std::size_t>(reader.units("shared_bytes_per_unit", 0));
  if (properties.is_object()) device.properties = properties.dump();
  reader.finish();
  return device;
}

}  // namespace braid::scheduler
