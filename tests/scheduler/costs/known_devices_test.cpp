#include "scheduler/costs/known_devices.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/device/block_needs.h"
#include "tests/error_of.h"

namespace braid::scheduler::testing {

TEST_CASE("a device that is known by name has what planning needs") {
  for (const std::string& name : known_device_names()) {
    CAPTURE(name);
    const DeviceInfo device = known_device(name);
    CHECK(device.capacity > 1);
    CHECK(device.oversubscribes);
    CHECK(device.flops_per_unit > 0);
    CHECK(device.matrix_flops_per_unit > 0);
    CHECK(device.bytes_per_second > device.bytes_per_second_unit);
    CHECK(resident_blocks(device, {}) > 1);
  }
  CHECK_FALSE(known_device("h200").properties.empty());
  CHECK_THROWS_WITH_AS(known_device("h300"),
                       "[device] expected one of p100, p4000, v100, rtx2080ti, a100, h100, h200, got 'h300'", Error);
}

TEST_CASE("a device that was written as JSON is read as it was") {
  DeviceInfo cpu{.name = "a \"CPU\"",
                 .capacity = 6,
                 .memory_bytes = std::size_t{1} << 40,
                 .flops_per_unit = 1.5e11,
                 .bytes_per_second = 7e10,
                 .bytes_per_second_unit = 4e10,
                 .launch_seconds = 1e-6,
                 .fork_seconds = 4e-6,
                 .max_width = 6,
                 .avx512 = true};
  for (const DeviceInfo& device : {cpu, known_device("v100"), known_device("h200")}) {
    const std::string json = to_json(device);
    CHECK(to_json(device_from_json(json)) == json);
  }
  CHECK(device_from_json(to_json(cpu)).name == cpu.name);
  std::string older = to_json(cpu);
  older.erase(older.find("\"avx512\": true,"), std::string_view("\"avx512\": true,").size());
  CHECK_FALSE(device_from_json(older).avx512);
  CHECK(device_from_json(to_json(cpu)).memory_bytes == cpu.memory_bytes);
}

TEST_CASE("an error in the description of a device names the key") {
  const std::string json = to_json(known_device("h200"));
  const auto message = [&](std::string_view from, std::string_view to) {
    std::string changed = json;
    const std::size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    changed.replace(at, from.size(), to);
    return braid::testing::error_of<Error>([&] { device_from_json(changed); });
  };
  CHECK(message("\"capacity\": 132", "\"capacity\": 0") ==
        "[device] 'capacity' must be an integer from 1 to 1048576, got 0");
  CHECK(message("\"capacity\": 132", "\"capacity\": 1.5") ==
        "[device] 'capacity' must be an integer from 1 to 1048576, got 1.5");
  CHECK(message("\"memory_bytes\": ", "\"memory_bytes\": 1e300, \"memory_was\": ") ==
        "[device] 'memory_bytes' must be an integer from 0 to 9007199254740992, got 1e+300");
  CHECK(message("\"capacity\": 132,", "") ==
        "[device] the whole has no key 'capacity', got "
        "{\"avx512\":false,\"bytes_per_second\":4080000000000.0,\"bytes_pe…");
  CHECK(message("\"capacity\"", "\"cores\": 1, \"capacity\"") == "[device] unknown key 'cores'");
  CHECK(message("\"oversubscribes\": true", "\"oversubscribes\": 1") ==
        "[device] 'oversubscribes' must be true or false, got 1");
  CHECK(message("{", "") == "[device] line 2, column 9: expected valid JSON, got something else");
  CHECK(message(json, "[]") == "[device] the whole must be an object with a key 'name', got []");
}

}  // namespace braid::scheduler::testing
