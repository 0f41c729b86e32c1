#define DOCTEST_CONFIG_IMPLEMENT
#include <iostream>
#include <string_view>

#include "ops/kernels/kernels.h"
#include "tests/gpu/gpu_test.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  // The subcases of "every op", which doctest cannot list: -sc=NAME runs one of them.
  if (argc == 2 && std::string_view(argv[1]) == "--list-ops") {
    for (const std::string_view name : braid::kernel_names(braid::DeviceType::cpu)) std::cout << name << '\n';
    return 0;
  }
  doctest::Context context(argc, argv);
  const int status = context.run();
  if (braid::testing::has_device()) return status;
  std::cout << "skipped: " << braid::cuda::unavailable_reason() << '\n';
  return status == 0 ? kSkipped : status;
}
