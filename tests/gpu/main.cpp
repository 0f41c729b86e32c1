#define DOCTEST_CONFIG_IMPLEMENT
#include <iostream>

#include "tests/gpu/gpu_test.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  doctest::Context context(argc, argv);
  const int status = context.run();
  if (braid::testing::has_gpu()) return status;
  std::cout << "skipped: " << braid::cuda::unavailable_reason() << '\n';
  return status == 0 ? kSkipped : status;
}
