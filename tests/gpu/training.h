#pragma once
// Trains a small model on random images, and compares trainings bit for bit.

#include <optional>
#include <span>

#include "models/registry.h"
#include "runtime/session.h"
#include "tests/gpu/gpu_test.h"
#include "tests/noise.h"
#include "tests/trained.h"
#include "train/loss_scale.h"
#include "train/optimizer.h"

namespace braid::testing {

/// Steps of a test: a GPU takes them all, a CPU a few.
inline int steps(int all) { return tests_gpu() ? all : std::min(all, 8); }

inline SessionOptions on_device(int streams) {
  SessionOptions options;
  options.device = test_device();
  options.streams = streams;
  options.tf32 = false;                            // comparable with the CPU
  options.intra_op_threads = tests_gpu() ? 0 : 1;  // the same for any number of streams
  return options;
}

using Training = Trained;

constexpr std::int64_t kBatch = 8;
constexpr int kClasses = 10;

/// The batches of a training repeat after four.
inline Array batch_images(int step) { return noise({kBatch, 32, 32, 3}, static_cast<std::uint64_t>(step % 4)); }

inline Array batch_labels() {
  Array labels(DType::i32, {kBatch});
  for (std::int64_t i = 0; i < kBatch; ++i) labels.as<std::int32_t>()[static_cast<std::size_t>(i)] = i % kClasses;
  return labels;
}

/// A model in training.
class Trainee {
 public:
  Trainee(const SessionOptions& options, std::string_view name, DType dtype = DType::f32, float loss_scale = 0)
      : session_(options),
        model_(make(name)),
        sgd_(model_->parameters(), {.lr = 0.02, .momentum = 0.9, .weight_decay = 1e-4}),
        dtype_(dtype) {
    if (loss_scale > 0) scale_.emplace(session_, LossScaleOptions{}, loss_scale);
  }

  Session& session() { return session_; }
  const LossScale& scale() const { return *scale_; }

  /// Records a training step, has it run by `run`, and notes the loss.
  template <class Run>
  void record(const Array& images, const Array& labels, const Run& run) {
    Step step = session_.step();
    const Tensor loss = cross_entropy((*model_)(cast(images, dtype_)), labels);
    backward(scale_.has_value() ? (*scale_)(loss) : loss);
    sgd_.step(scale_.has_value() ? &*scale_ : nullptr);
    run(step);
    losses_.push_back(loss.item());
  }
  /// The same with the next batch.
  template <class Run>
  void record(const Run& run) {
    record(batch_images(static_cast<int>(losses_.size())), batch_labels(), run);
  }
  void step() {
    record([](Step& step) { step.run(); });
  }

  Training result() { return {losses_, tensors_of(session_)}; }

 private:
  std::unique_ptr<Module> make(std::string_view name) {
    models::ModelOptions options;
    options.classes = kClasses;
    options.image_shape = {32, 32, 3};
    if (name == "googlenet") options.width = tests_gpu() ? 0.5 : 0.125;
    return models::make_model(name, session_, options);
  }

  Session session_;
  std::unique_ptr<Module> model_;
  SGD sgd_;
  DType dtype_;
  std::optional<LossScale> scale_;
  std::vector<double> losses_;
};

inline Training train(const SessionOptions& options, std::string_view name, int steps, DType dtype = DType::f32) {
  Trainee trainee(options, name, dtype);
  for (int i = 0; i < steps; ++i) trainee.step();
  return trainee.result();
}

/// The widest comes last, and a CPU does without.
inline std::span<const std::string_view> tested_models() {
  static constexpr std::string_view kNames[] = {"resnet20", "pathnet_conv", "googlenet"};
  return std::span(kNames).first(tests_gpu() ? 3 : 2);
}

}  // namespace braid::testing
