#include "train/checkpoint/checkpoint.h"

#include <set>

#include "core/base/error.h"
#include "train/weight_average.h"

namespace braid {

namespace {

constexpr const char *kLayout = "layout", *kLayouts = "activations NHWC, filters KRSC";

/// Reads each tensor from the file's tensor name_of(tensor), after checking that all fit. If it is strict, the file
/// must hold all of them and, of names that begin with `whole`, no others except training's; nullptr: it may hold more.
template <class NameOf>
Unmatched load(const SafeTensors& file, Context& context, std::span<Parameter* const> tensors, bool strict,
               const char* whole, const NameOf& name_of) {
  const auto layout = file.metadata().find(kLayout);
  file.expect(
      layout != file.metadata().end() && layout->second == kLayouts, "expected the layouts '", kLayouts,
      "' in the metadata, found ",
      layout == file.metadata().end() ? "none: the file comes from another program" : '\'' + layout->second + '\'');
  check_not_null("checkpoint", tensors);
  Unmatched unmatched;
  std::vector<std::pair<Parameter*, Array>> values;
  std::set<std::string> names;
  for (Parameter* tensor : tensors) {
    const std::string name = name_of(*tensor);
    names.insert({tensor->name(), name});
    if (!file.contains(name)) {
      file.expect(!strict, "has no tensor '", name, "': it belongs to another model");
      unmatched.missing.push_back(tensor->name());
      continue;
    }
    const Array& value = values.emplace_back(tensor, file.array(name)).second;
    file.expect(value.dtype() == tensor->desc().dtype && value.shape() == tensor->shape(), "tensor '", name,
                "': expected ", tensor->desc().dtype, ' ', tensor->shape(), ", found ", value.dtype(), ' ',
                value.shape());
  }
  for (const auto& [name, entry] : file.entries()) {
    const bool counts = whole != nullptr && name.starts_with(whole) && !name.starts_with(kTrainingPrefix);
    if (!counts || names.contains(name)) continue;
    file.expect(!strict, "has a tensor '", name, "' that the model does not have: it belongs to another model");
    unmatched.unexpected.push_back(name);
  }
  file.expect(strict || !values.empty(), "has none of the tensors: it belongs to another model");
  for (const auto& [tensor, value] : values) context.write(*tensor, value);
  return unmatched;
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
  load(file, context, tensors, /*strict=*/true, prefix.empty() ? "" : nullptr,
       [&](const Parameter& tensor) { return message(prefix, tensor.name()); });
}

std::string trained_name(const SafeTensors& file, const std::string& tensor) {
  const std::string average = message(kTrainingPrefix, WeightAverage::kPrefix, tensor);
  return file.contains(average) ? average : tensor;
}

void load_trained(const SafeTensors& file, Context& context, std::span<Parameter* const> tensors) {
  load(file, context, tensors, /*strict=*/true, "",
       [&](const Parameter& tensor) { return trained_name(file, tensor.name()); });
}

Unmatched load_checkpoint(const std::filesystem::path& path, Context& context, std::span<Parameter* const> tensors,
                          const LoadOptions& options) {
  const auto name_of = [&](const Parameter& tensor) {
    const std::string& name = tensor.name();
    return name.starts_with(options.prefix) ? options.file_prefix + name.substr(options.prefix.size()) : name;
  };
  return load(SafeTensors(path), context, tensors, options.strict, options.file_prefix.c_str(), name_of);
}

}  // namespace braid
