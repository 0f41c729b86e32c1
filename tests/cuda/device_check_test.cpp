// Kernels on the recording runtime compute nothing: a GPU that is usable, and wrong.

#include "runtime/device_check.h"

#include <cudnn.h>
#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/device/cuda/cuda_backend.h"
#include "runtime/session.h"
#include "tests/cuda/fresh_device.h"
#include "tests/cuda/recording/recording.h"

namespace braid::testing {
namespace {

/// All other tests use these two.
[[maybe_unused]] const bool trusted = [] {
  for (const int index : {0, 1}) set_device_fault({DeviceType::cuda, index}, "");
  return true;
}();

TEST_CASE("a GPU that does not compute what the CPU does is refused, and `auto` takes the CPU and says why") {
  const FreshDevice world;
  recording::set_devices(3);
  const std::string fault = device_fault({DeviceType::cuda, 2});
  CHECK(fault.starts_with("the loss of step 1 is 0, on the CPU it is "));
  const auto replays = [](const recording::Call& call) { return call.kind == recording::Call::Kind::graph_launch; };
  CHECK(std::ranges::any_of(recording::calls(), replays));
  CHECK_THROWS_WITH_AS(Session({.device = "cuda:2"}), doctest::Contains("[device] cuda:2 does not compute what"),
                       DeviceError);
  CHECK_THROWS_WITH_AS(find_device("cuda:2"), doctest::Contains("braid devices --check"), DeviceError);

  set_device_fault({DeviceType::cuda, 0}, fault);
  const auto [device, report] = find_device("auto");
  CHECK(device == Device{});
  CHECK(report.starts_with("cuda:0 does not compute what the CPU does: the loss of step 1 is 0"));
  CHECK(report.find("; using the CPU instead. Please report") != std::string::npos);
  CHECK(report.find('\n') == std::string::npos);
  CHECK(Session({.device = "auto"}).device().type == DeviceType::cpu);
  set_device_fault({DeviceType::cuda, 0}, "");
  CHECK(find_device("auto").device.type == DeviceType::cuda);
}

TEST_CASE("a GPU without the libraries that Braid calls is not available, and the reason says which one is missing") {
  recording::reset();
  recording::fail_next("missing_library", 1);
  CHECK(cuda::unavailable_reason() == "a library is missing");
  recording::fail_next("missing_library", 1);
  CHECK(Device::parse("auto").type == DeviceType::cpu);
  CHECK(Device::parse("auto").type == DeviceType::cuda);
}

TEST_CASE("a GPU that fails when it is checked is refused with the error") {
  recording::reset();
  recording::fail_next("cudnnSetStream", CUDNN_STATUS_NOT_INITIALIZED);
  CHECK(device_fault({DeviceType::cuda, 0}).starts_with("[cudnn] cudnnSetStream failed"));
}

}  // namespace
}  // namespace braid::testing
