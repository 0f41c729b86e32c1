// Braid's networks against torchvision's: with the same weights and the same batch they must compute the same, to what
// single precision can do. tests/golden/export.py wrote the files and says what is in them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/registry.h"
#include "runtime/session.h"
#include "tests/data/files.h"
#include "train/checkpoint.h"
#include "train/optimizer.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// A network as export.py makes it.
struct Row {
  const char* name;
  models::ModelOptions options;
  std::int64_t images;    ///< in the batch
  std::size_t heads = 1;  ///< classifiers, the auxiliary ones included
};

const Row kRows[] = {
    {"resnet18", {.image_shape = {67, 75, 3}, .stem = "image", .width = 1.0 / 16}, 4},
};

// What is allowed, relative to the largest element of a tensor. The files hold the results of double precision;
// PyTorch in single precision is off by up to 2e-6 in logits and statistics, and 2e-5 in gradients (export.py prints
// it). These networks being small, a real mistake is much larger: batch norm's epsilon of 1e-5 for 1e-3 makes 5e-4.
constexpr double kForward = 1e-4;
constexpr double kBackward = 1e-3;
// What two steps of SGD changed: the errors of both gradients, and the rounding of weights that are up to a thousand
// times larger than their change.
constexpr double kUpdate = 1e-3;

std::string path_of(const Row& row) { return message(BRAID_SOURCE_DIR "/tests/golden/", row.name, ".braid"); }

std::vector<Parameter*> tensors_of(const Module& model) {
  std::vector<Parameter*> tensors = model.parameters();
  std::ranges::copy(model.states(), std::back_inserter(tensors));
  return tensors;
}

/// The arrays of a golden file, in a context of their own: so the reader of checkpoints finds out whether the file has
/// exactly those that the model asks for.
class Golden {
 public:
  Golden(const Row& row, const Module& model) {
    const Shape& image = row.options.image_shape;
    add("images", {DType::f32, {row.images, image[0], image[1], image[2]}});
    add("labels", {DType::i32, {row.images}});
    for (const Parameter* tensor : tensors_of(model)) {
      add("before." + tensor->name(), tensor->desc());
      add("after." + tensor->name(), tensor->desc());
    }
    for (const Parameter* weight : model.parameters()) add("gradient." + weight->name(), weight->desc());
    const ValueDesc logits{DType::f32, {row.images, row.options.classes}};
    for (std::size_t i = 0; i < row.heads; ++i) add(message("logits.", i), logits);
    add("loss", {DType::f32, {}});
    add("evaluation", logits);
  }

  /// Throws DataError.
  void load(const std::string& path) { load_checkpoint(path, context_, context_.parameters()); }
  /// All arrays but one.
  void save_without(const std::string& name, const std::string& path) {
    std::vector<Parameter*> rest;
    std::ranges::copy_if(context_.parameters(), std::back_inserter(rest),
                         [&](const Parameter* tensor) { return tensor->name() != name; });
    save_checkpoint(path, context_, rest);
  }
  Array operator[](const std::string& name) { return context_.read(find(name)); }
  void write(const std::string& name, const Array& value) { context_.write(find(name), value); }

 private:
  void add(const std::string& name, const ValueDesc& desc) { context_.add(name, desc, ValueKind::state); }
  Parameter& find(const std::string& name) {
    for (Parameter* tensor : context_.parameters()) {
      if (tensor->name() == name) return *tensor;
    }
    throw Error("[golden] there is no array " + name);
  }

  Context context_{make_backend(Device{}), 1};
};

/// The largest difference, relative to the largest element of what is expected; infinite if an element is not finite.
double deviation(const Array& found, const Array& expected) {
  const auto a = found.as<float>(), b = expected.as<float>();
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!std::isfinite(d)) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, d);
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return difference == 0 ? 0 : difference / largest;
}

Array minus(const Array& a, const Array& b) {
  Array difference(DType::f32, a.shape());
  std::ranges::transform(a.as<float>(), b.as<float>(), difference.as<float>().begin(), std::minus<>());
  return difference;
}

/// Does with Braid's network what export.py did with torchvision's.
class Comparison {
 public:
  explicit Comparison(const Row& row)
      : model_(models::make_model(row.name, session_, row.options)), golden_(row, *model_) {
    golden_.load(path_of(row));
  }
  Golden& golden() { return golden_; }

  /// What differs by more than is allowed, one line each; empty if all is well.
  std::string run() {
    for (Parameter* tensor : tensors_of(*model_)) session_.write(*tensor, golden_["before." + tensor->name()]);
    SGD sgd(model_->parameters(), {.lr = 0.01, .momentum = 0.9});
    train(sgd, true);
    train(sgd, false);
    compare_tensors();
    compare_evaluation();
    return report_;
  }

 private:
  void train(SGD& sgd, bool compared) {
    const Array images = golden_["images"], labels = golden_["labels"];
    Step step = session_.step();
    const Tensor targets = labels;
    const std::vector<Head> heads = model_->heads(images);
    std::vector<Tensor> losses, gradients;
    for (const Head& head : heads) losses.push_back(head.weight * cross_entropy(head.logits.keep(), targets));
    const Tensor loss = sum(losses);
    backward(loss);
    for (const Parameter* weight : model_->parameters()) {
      gradients.push_back(Tensor(session_.tape(), session_.tape().gradient(*weight)).keep());
    }
    sgd.step();
    step.run();
    if (!compared) return;
    for (std::size_t i = 0; i < heads.size(); ++i) compare(message("logits.", i), heads[i].logits.array(), kForward);
    compare("loss", loss.array(), kForward);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      compare("gradient." + model_->parameters()[i]->name(), gradients[i].array(), kBackward);
    }
  }

  void compare_tensors() {
    for (const Parameter* weight : model_->parameters()) {
      const Array before = golden_["before." + weight->name()];
      const Array after = golden_["after." + weight->name()];
      note("update of " + weight->name(), deviation(minus(session_.read(*weight), before), minus(after, before)),
           kUpdate);
    }
    for (const Parameter* state : model_->states()) compare("after." + state->name(), session_.read(*state), kForward);
  }

  void compare_evaluation() {
    model_->eval();
    const Array images = golden_["images"];
    Step step = session_.step();
    const NoGrad no_grad;
    const Tensor logits = (*model_)(images);
    step.run();
    compare("evaluation", logits.array(), kForward);
  }

  void compare(const std::string& name, const Array& found, double allowed) {
    note(name, deviation(found, golden_[name]), allowed);
  }
  void note(const std::string& what, double off, double allowed) {
    if (off <= allowed) return;
    report_ += message(what, " is off by ", off, " of its largest element; allowed is ", allowed, '\n');
  }

  Session session_{{.device = "cpu", .streams = 2}};
  std::unique_ptr<Module> model_;
  Golden golden_;
  std::string report_;
};

}  // namespace

TEST_CASE("logits, gradients, two steps of training, and evaluation agree with torchvision") {
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    CHECK(Comparison(row).run() == "");
  }
}

TEST_CASE("one wrong number in a golden file is noticed") {
  for (const std::string name :
       {"logits.0", "loss", "gradient.conv1.weight", "after.fc.bias", "after.layer2.0.bn1.running_var", "evaluation"}) {
    CAPTURE(name);
    Comparison comparison(kRows[0]);
    Array array = comparison.golden()[name];
    array.as<float>()[0] += 0.01f;
    comparison.golden().write(name, array);
    const std::string report = comparison.run();
    CHECK(contains(report, name.substr(name.find('.') + 1) + " is off by"));
    CHECK(std::ranges::count(report, '\n') == 1);
  }
}

TEST_CASE("a golden file that lacks an array, is damaged, or is missing is an error") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/golden.braid";
  const Row& row = kRows[0];
  Session session({.device = "cpu", .streams = 1});
  const auto model = models::make_model(row.name, session, row.options);
  Golden golden(row, *model);
  const auto error = [&] { return error_of<DataError>([&] { golden.load(path); }); };
  CHECK(contains(error(), "cannot read the checkpoint"));

  golden.load(path_of(row));
  golden.save_without("gradient.fc.bias", path);
  CHECK(contains(error(), "has no tensor 'gradient.fc.bias'"));

  std::filesystem::copy_file(path_of(row), path, std::filesystem::copy_options::overwrite_existing);
  CHECK(error() == "");
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('\x5a');
  CHECK(contains(error(), "the checksum does not match"));
}
