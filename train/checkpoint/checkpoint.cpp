#include "train/checkpoint/checkpoint.h"

#include <set>

#include "core/base/error.h"
#include "train/weight_average.h"

namespace braid {

namespace {

constexpr const char *kLayout = "layout", *kLayouts = "activations NHWC, filters KRSC";

/// Reads each tensor from the file's tensor name_of(tensor), after checking that all fit. Unless the file may hold
/// more, it must hold these tensors and no others except training's.
template <class NameOf>
void load(const SafeTensors& file, Context& context, std::span<Parameter* const> tensors, bool may_hold_more,
          const NameOf& name_of) {
  const auto layout = file.metadata().find(kLayout);
  file.expect(
      layout != file.metadata().end() && layout->second == kLayouts, "expected the layouts '", kLayouts,
      "' in the metadata, found ",
      layout == file.metadata().end() ? "none: the file comes from another program" : '\'' + layout->second + '\'');
  check_not_null("checkpoint", tensors);
  std::vector<Array> values;
  std::set<std::string> names;
  for (const Parameter* tensor : tensors) {
    names.insert(tensor->name());
    const std::string name = name_of(*tensor);
    file.expect(file.contains(name), "has no tensor '", name, "': it belongs to another model");
    const Array& value = values.emplace_back(file.array(name));
    file.expect(value.dtype() == tensor->desc().dtype && value.shape() == tensor->shape(), "tensor '", name,
                "': expected ", tensor->desc().dtype, ' ', tensor->shape(), ", found ", value.dtype(), ' ',
                value.shape());
  }
  for (const auto& [name, entry] : file.entries()) {
    file.expect(may_hold_more || name.starts_with(kTrainingPrefix) || names.contains(name), "has a tensor '", name,
                "' that the model does not have: it belongs to another model");
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) context.write(*tensors[i], values[i]);
}

}  // namespace

std::map<std::string, std::string> layout_metadata() { return {{kLayout, kLayouts}}; }

std::vector<NamedArray> copies_of(Context& context, std::span<Parameter* const> tensors, std::string_view prefix) {
  check_not_null("checkpoint", tensors);
  std::vector<NamedArray> copies;
  for (const Parameter* tensor : tensors) copies.push_back({message(prefix, tensor->name()), context.read(*tensor)});
  return copies;
}

void save_checkpoint(const std::filesystem::path& path, Context& context, std::span<Parameter* const> tensors) {
  write_safetensors(path, copies_of(context, tensors), layout_metadata());
}

std::vector<NamedArray> copies_for_training(Context& context, std::span<Parameter* const> model,
                                            std::span<Parameter* const> states) {
  std::vector<NamedArray> copies = copies_of(context, model);
  for (NamedArray& copy : copies_of(context, states, kTrainingPrefix)) copies.push_back(std::move(copy));
  return copies;
}

void load_tensors(const SafeTensors& file, Context& context, std::span<Parameter* const> tensors,
                  std::string_view prefix) {
  load(file, context, tensors, !prefix.empty(),
       [&](const Parameter& tensor) { return message(prefix, tensor.name()); });
}

std::string trained_name(const SafeTensors& file, const std::string& tensor) {
  const std::string average = message(kTrainingPrefix, WeightAverage::kPrefix, tensor);
  return file.contains(average) ? average : tensor;
}

void load_trained(const SafeTensors& file, Context& context, std::span<Parameter* const> tensors) {
  load(file, context, tensors, false, [&](const Parameter& tensor) { return trained_name(file, tensor.name()); });
}

void load_checkpoint(const std::filesystem::path& path, Context& context, std::span<Parameter* const> tensors) {
  load_tensors(SafeTensors(path), context, tensors);
}

}  // namespace braid
