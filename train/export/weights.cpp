#include "train/export/weights.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/text/json.h"
#include "core/text/text.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/training_images.h"
#include "train/export/forward_pass.h"

namespace braid {

namespace {

constexpr std::string_view kCounter = "num_batches_tracked", kVariance = "running_var";

/// The tensors whose first extent is the number of classes: those of the layers that compute the logits.
std::set<std::int32_t> classifier_slots(const ForwardPass& pass) {
  const StepGraph& graph = pass.graph();
  std::set<std::int32_t> slots;
  for (ValueId value : pass.logits) {
    for (bool found = false; !found && graph.value(value).producer != kNoNode;) {
      const std::span<const ValueId> inputs = graph.inputs(graph.value(value).producer);
      for (const ValueId input : inputs.subspan(1)) {
        if (graph.value(input).slot < 0) continue;
        slots.insert(graph.value(input).slot);
        found = true;
      }
      value = inputs.front();
    }
  }
  return slots;
}

}  // namespace

void export_weights(const std::filesystem::path& path, Module& model, const Shape& image) {
  const ForwardPass pass(model, image, true);
  const FeatureOrders orders(pass);
  std::vector<NamedArray> tensors;
  for (const Parameter* tensor : model.tensors()) {
    const std::string& name = tensor->name();
    const Array value = model.context().read(*tensor);
    const FeatureOrder* order = orders.of_weight(tensor->slot());
    tensors.push_back({name, order != nullptr ? channels_first(value, *order) : value});
    if (!name.ends_with(kVariance)) continue;
    // A zero of f64 has the bytes of a zero of int64.
    const std::string counter = name.substr(0, name.size() - kVariance.size()).append(kCounter);
    tensors.push_back({counter, Array(DType::f64, {}), "I64"});
  }
  write_safetensors(path, tensors, {{"format", "pt"}});
}

std::string load_weights(const std::filesystem::path& path, Module& model, const Shape& image,
                         const std::vector<std::string>& classes) {
  const SafeTensors file(path);
  const ForwardPass pass(model, image, true);
  std::optional<FeatureOrders> orders;  // unless the file is in Braid's layouts
  if (!file.metadata().contains("layout")) orders.emplace(pass);
  const std::set<std::int32_t> classifiers = classifier_slots(pass);
  const std::string of_file = classes_in(file);
  const bool same_names = classes.empty() || of_file.empty() || of_file == Json(classes).dump();
  std::int64_t file_classes = 0;
  std::vector<std::pair<Parameter*, Array>> values;
  std::vector<std::string> kept;  // names of classifiers
  std::set<std::string> names;
  for (Parameter* tensor : model.tensors()) {
    names.insert(tensor->name());
    file.expect(file.contains(tensor->name()), "has no tensor '", tensor->name(), "': it belongs to another network");
    const Array value = file.array(trained_name(file, tensor->name()));
    const FeatureOrder* order = orders.has_value() ? orders->of_weight(tensor->slot()) : nullptr;
    const Shape expected = order != nullptr ? channels_first(tensor->shape()) : tensor->shape();
    const bool of_classes = classifiers.contains(tensor->slot());
    if (value.dtype() == DType::f32 && value.shape() == expected && (same_names || !of_classes)) {
      values.emplace_back(tensor, order != nullptr ? channels_last(value, *order, tensor->shape()) : value);
      continue;
    }
    const bool other_classes = of_classes && value.shape().rank() == expected.rank() &&
                               std::ranges::equal(value.shape().extents().subspan(1), expected.extents().subspan(1));
    file.expect(other_classes && value.dtype() == DType::f32, "tensor '", tensor->name(), "': expected f32 ", expected,
                ", found ", value.dtype(), ' ', value.shape());
    kept.push_back(tensor->name());
    file_classes = value.shape()[0];
  }
  std::size_t auxiliary = 0;
  for (const auto& [name, entry] : file.entries()) {
    if (names.contains(name) || name.ends_with(kCounter) || name.starts_with(kTrainingPrefix)) continue;
    const bool of_auxiliary = name.starts_with("aux") || name.starts_with("Aux");
    file.expect(of_auxiliary, "has a tensor '", name,
                "' that the network does not have: it belongs to another network");
    ++auxiliary;
  }
  for (const auto& [tensor, value] : values) model.context().write(*tensor, value);
  std::string report = message("starts from the weights in ", file.path());
  if (!kept.empty()) {
    report += message("; ", comma_list(kept), " at random, as the file has ",
                      same_names ? plural(file_classes, "class", "es") : "the classes " + shortened(of_file, 300));
  }
  if (auxiliary > 0) report += message("; leaves out ", plural(auxiliary, "tensor"), " of auxiliary classifiers");
  return report;
}

}  // namespace braid
