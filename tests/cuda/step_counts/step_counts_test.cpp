// The counts of a step. count_step() itself compares what is launched with the plan.

#include "tests/cuda/step_counts/step_counts.h"

#include <doctest/doctest.h>

#include "tests/train/single_job.h"

namespace braid::testing {
namespace {

TrainConfig small_step(const std::string& model, int streams) {
  return parse_train_config(
      "name: small\n"
      "device: cuda\n"
      "precision: f32\n"
      "data: {name: synthetic, size: 4, val_size: 1, image_size: 28, channels: 1, classes: 10}\n"
      "train: {epochs: 1, batch_size: 4}\n",
      "small.yaml", {"model.name=" + model, "streams=" + std::to_string(streams)});
}

TEST_CASE("the counts of a step of three linear layers are those that one finds by hand") {
  const StepCounts counts = count_step(small_step("mlp", 1));
  // Forward 5, loss and accuracy 2 each, the loss's gradient and its seed, backward 3 + 4 + 3, one update.
  CHECK(counts.kernels == 22);
  // Forward 5, loss 2, its gradient, two times data and ReLU, filter, update.
  CHECK(counts.chain == 14);
  CHECK(counts.waits == 0);
}

TEST_CASE("streams change neither the work of a step nor the CUDA graph that it becomes") {
  const StepCounts serial = count_step(small_step("googlenet", 1)), wide = count_step(small_step("googlenet", 4));
  CHECK(serial.waits == 0);
  CHECK(wide.waits > 2 * 3);  // it forks and joins, and its plan waits
  CHECK(serial.graph_nodes == serial.kernels);
  CHECK(wide.graph_nodes == serial.kernels);
  CHECK(wide.kernels == serial.kernels);
  CHECK(wide.chain == serial.chain);
  CHECK(wide.chain < wide.kernels);
  CHECK(wide.bytes == serial.bytes);
  CHECK(wide.flops == serial.flops);
}

}  // namespace
}  // namespace braid::testing
