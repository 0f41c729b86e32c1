// Braid's side of inference.py and many_shapes.py: bench_inference NETWORK BATCH [plain]. Writes the network, with
// initial weights, to the ONNX file NETWORK.onnx of the current folder. After a line of JSON that says it is ready, it
// answers lines 'run N' with the seconds of N batches, and lines 'shape BATCH SIZE' when batches have that shape. With
// `plain`, it runs the network as it is trained: nothing is folded.

#include "models/inference.h"

#include <chrono>
#include <iostream>
#include <string>

#include "models/registry.h"
#include "runtime/session.h"
#include "train/export/onnx.h"

namespace {

using namespace braid;

constexpr int kWarmUp = 40;  ///< until the plan is chosen

void serve(const std::string& name, std::int64_t batch, bool plain) {
  Session session({.device = "cpu"});
  const Shape image{224, 224, 3};
  const auto model = models::make_model(name, session, {.classes = 1000, .image_shape = image});
  export_onnx(name + ".onnx", *model, image);
  model->eval();
  Inference inference(*model);
  Array images(DType::f32, {batch, image[0], image[1], image[2]});
  const auto run = [&] {
    Step step = session.step();
    const NoGrad no_grad;
    const Tensor logits = plain ? (*model)(images) : inference(images);
    step.run();
    return logits.array();
  };
  for (int i = 0; i < kWarmUp; ++i) run();
  std::cout << "{}" << std::endl;
  for (std::string word; std::cin >> word;) {
    std::int64_t count = 0, size = 0;
    std::cin >> count;
    if (word == "shape") {
      std::cin >> size;
      images = Array(DType::f32, {count, size, size, image[2]});
      std::cout << "{}" << std::endl;
      continue;
    }
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < count; ++i) run();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    std::cout << "{\"seconds\": " << time.count() << ", \"host_seconds\": 0}" << std::endl;
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::cerr << "usage: bench_inference NETWORK BATCH [plain]\n";
    return 2;
  }
  try {
    serve(arguments[1], std::stoll(arguments[2]), count > 3);
  } catch (const std::exception& error) {
    std::cerr << "bench_inference: " << error.what() << '\n';
    return 1;
  }
}
