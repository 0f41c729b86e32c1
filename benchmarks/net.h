#pragma once
// The networks of the registry, for programs that measure planning.

#include <chrono>
#include <string>

#include "data/synthetic.h"
#include "runtime/compile/plan_cache.h"
#include "train/run/job/learner.h"

namespace braid {

template <class Function>
double seconds(const Function& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A network that can record its training step repeatedly.
class Net {
 public:
  explicit Net(const std::string& name, std::int64_t batch = 32)
      : image_size_(image_size(name)),
        channels_(name == "lenet5" || name == "mlp" ? 1 : 3),
        classes_(models::model_task(name) != models::Task::classification ? 2
                 : image_size_ > 32                                       ? 1000
                                                                          : 10),
        batch_(batch),
        session_({.device = "cpu"}),
        learner_(config(name), session_, *dataset()),
        images_(DType::f32, {batch, image_size_, image_size_, channels_}),
        labels_(DType::i32, models::model_task(name) == models::Task::segmentation
                                ? Shape{batch, image_size_, image_size_}
                                : Shape{batch}) {}

  /// Calls use(graph) with the recorded step. Returns the seconds that recording took.
  template <class Use>
  double record(const Use& use) {
    Step step = session_.step();
    const double time = seconds([&] { learner_.record(images_, labels_); });
    step.discard();
    use(session_.tape().graph());
    return time;
  }
  StepGraph graph() {
    StepGraph result;
    record([&](const StepGraph& graph) { result = with_kept_results(graph); });
    return result;
  }
  Session& session() { return session_; }

 private:
  static std::int64_t image_size(std::string_view name) {
    if (name == "lenet5" || name == "mlp") return 28;
    for (const char* small : {"pathnet", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110"}) {
      if (name.starts_with(small)) return 32;
    }
    if (name == "dcgan") return 64;
    return name == "inception_v3" ? 299 : 224;
  }
  TrainConfig config(const std::string& name) const {
    TrainConfig config;
    config.model.name = name;
    config.optimizer.lr = 0.1;
    config.batch_size = batch_;
    return config;
  }
  std::shared_ptr<const ImageDataset> dataset() const {
    return synthetic({.size = batch_, .shape = {image_size_, image_size_, channels_}, .classes = classes_});
  }

  std::int64_t image_size_, channels_;
  int classes_;
  std::int64_t batch_;
  Session session_;
  Learner learner_;
  Array images_, labels_;
};

}  // namespace braid
