// Prints what the training step of a config asks of a GPU, as a line of JSON: step_counts CONFIG [KEY=VALUE …].

#include <cudnn.h>

#include <iostream>

#include "core/text/json.h"
#include "runtime/device_check.h"
#include "tests/cuda/step_counts/step_counts.h"

int main(int count, char** arguments) {
  if (count < 2) {
    std::cerr << "usage: step_counts CONFIG [KEY=VALUE …]\n";
    return 2;
  }
  try {
    braid::set_device_fault({braid::DeviceType::cuda, 0}, "");  // the recorded device computes nothing
    const braid::RunConfig config = braid::read_run_config(arguments[1], {arguments + 2, arguments + count});
    const auto counts = braid::testing::count_step(config.jobs.front().training);
    const std::size_t cudnn = cudnnGetVersion() / 100;  // major · 100 + minor
    std::cout << braid::Json{{"kernels", counts.kernels},
                             {"waits", counts.waits},
                             {"graph_nodes", counts.graph_nodes},
                             {"chain", counts.chain},
                             {"bytes", counts.bytes},
                             {"flops", counts.flops},
                             {"cudnn", braid::message(cudnn / 100, '.', cudnn % 100)}}
                     .dump_sorted()
              << '\n';
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
