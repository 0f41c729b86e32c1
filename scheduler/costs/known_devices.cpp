#include "scheduler/costs/known_devices.h"

#include <cmath>

#include "core/error.h"
#include "core/json_part.h"
#include "core/suggestion.h"

namespace braid::scheduler {
namespace {

using Json = nlohmann::ordered_json;

/// What cuDNN needs to know about a device, with NVIDIA's public figures for the H200 SXM.
constexpr std::string_view kH200Properties = R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0,
  "multiProcessorCount": 132, "warpSize": 32, "maxThreadsPerSM": 2048, "maxThreadsPerBlock": 1024, "maxCtasPerSM": 32,
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 62914560,
  "totalGlobalMem": 150754820096, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
  "maxBlockSize": [1024, 1024, 64], "maxGridSize": [2147483647, 65535, 65535], "isTccDriver": 0, "supportCoopLaunch": 1
})";

/// The part of a GPU's peaks that good kernels reach; profiles replace these round figures.
constexpr double kComputeShare = 0.6, kMemoryShare = 0.85;

/// 67 TFLOP/s in f32, 989 in dense bf16, 141 GB at 4.8 TB/s (NVIDIA, H200 data sheet).
DeviceInfo h200() {
  constexpr int kMultiprocessors = 132;
  constexpr double kBandwidth = kMemoryShare * 4.8e12;
  return {.name = "NVIDIA H200",
          .capacity = kMultiprocessors,
          .memory_bytes = 150754820096,
          .flops_per_unit = kComputeShare * 67e12 / kMultiprocessors,
          .bytes_per_second = kBandwidth,
          .bytes_per_second_unit = 3 * kBandwidth / kMultiprocessors,  // a third of the SMs saturates the memory
          .launch_seconds = 2e-6,                                      // a kernel within a CUDA graph
          .matrix_flops_per_unit = kComputeShare * 989e12 / kMultiprocessors,
          .oversubscribes = true,
          .blocks_per_unit = 5,  // core/cuda/occupancy.h
          .properties = std::string(kH200Properties)};
}

struct Named {
  std::string_view name;
  DeviceInfo (*make)();
};
constexpr Named kDevices[] = {{"h200", h200}};

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
    BRAID_CHECK(value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= least, Error,
                "[device] '", key, "' must be a number of at least ", least, ", got ", value.dump());
    return value.get<double>();
  }
  int units(const char* key) {
    constexpr int kMost = 1 << 20;
    const double value = number(key, 1);
    BRAID_CHECK(value == std::floor(value) && value <= kMost, Error, "[device] '", key, "' must be an integer up to ",
                kMost, ", got ", value);
    return static_cast<int>(value);
  }
  void finish() const { BRAID_CHECK(json_.empty(), Error, "[device] unknown key '", json_.begin().key(), "'"); }

 private:
  Json json_;
};

}  // namespace

DeviceInfo known_device(std::string_view name) {
  for (const Named& device : kDevices) {
    if (device.name == name) return device.make();
  }
  throw Error(message("[device] expected one of ", comma_list(known_device_names()), ", got '", name, "'"));
}

std::vector<std::string> known_device_names() {
  std::vector<std::string> names;
  for (const Named& device : kDevices) names.emplace_back(device.name);
  return names;
}

std::string to_json(const DeviceInfo& device) {
  Json json = {{"name", device.name},
               {"capacity", device.capacity},
               {"memory_bytes", device.memory_bytes},
               {"flops_per_unit", device.flops_per_unit},
               {"matrix_flops_per_unit", device.matrix_flops_per_unit},
               {"bytes_per_second", device.bytes_per_second},
               {"bytes_per_second_unit", device.bytes_per_second_unit},
               {"launch_seconds", device.launch_seconds},
               {"fork_seconds", device.fork_seconds},
               {"max_width", device.max_width},
               {"oversubscribes", device.oversubscribes},
               {"blocks_per_unit", device.blocks_per_unit},
               {"properties", nullptr}};
  if (!device.properties.empty()) json["properties"] = Json::parse(device.properties);
  return json.dump(2);
}

DeviceInfo device_from_json(std::string_view text) {
  Reader reader(text);
  DeviceInfo device;
  const Json name = reader.take("name"), oversubscribes = reader.take("oversubscribes"),
             properties = reader.take("properties");
  BRAID_CHECK(name.is_string(), Error, "[device] 'name' must be a string, got ", name.dump());
  BRAID_CHECK(oversubscribes.is_boolean(), Error, "[device] 'oversubscribes' must be true or false, got ",
              oversubscribes.dump());
  BRAID_CHECK(properties.is_object() || properties.is_null(), Error,
              "[device] 'properties' must be an object or null, got ", properties.dump());
  device.name = name.get<std::string>();
  device.capacity = reader.units("capacity");
  device.memory_bytes = static_cast<std::size_t>(reader.number("memory_bytes", 0));
  device.flops_per_unit = reader.number("flops_per_unit", 1);
  device.matrix_flops_per_unit = reader.number("matrix_flops_per_unit", 0);
  device.bytes_per_second = reader.number("bytes_per_second", 1);
  device.bytes_per_second_unit = reader.number("bytes_per_second_unit", 1);
  device.launch_seconds = reader.number("launch_seconds", 0);
  device.fork_seconds = reader.number("fork_seconds", 0);
  device.max_width = reader.units("max_width");
  device.oversubscribes = oversubscribes.get<bool>();
  device.blocks_per_unit = reader.units("blocks_per_unit");
  if (properties.is_object()) device.properties = properties.dump();
  reader.finish();
  return device;
}

}  // namespace braid::scheduler
