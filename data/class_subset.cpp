#include "data/class_subset.h"

#include <utility>

#include "core/text/text.h"

namespace braid {
namespace {

constexpr int kLeftOut = -1;

/// The new label of each class of the dataset, or kLeftOut.
std::vector<int> relabel(const ImageDataset& dataset, const std::vector<int>& classes) {
  std::vector<int> labels(static_cast<std::size_t>(dataset.classes()), kLeftOut);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    BRAID_CHECK(classes[i] >= 0 && classes[i] < dataset.classes(), ConfigError, "[class_subset] ", dataset.name(),
                " has classes 0 to ", dataset.classes() - 1, ", got class ", classes[i]);
    int& label = labels[static_cast<std::size_t>(classes[i])];
    BRAID_CHECK(label == kLeftOut, ConfigError, "[class_subset] class ", classes[i], " is listed twice");
    label = static_cast<int>(i);
  }
  return labels;
}

}  // namespace

ClassSubset::ClassSubset(std::shared_ptr<const ImageDataset> dataset, const std::vector<int>& classes)
    : dataset_(std::move(dataset)), name_(message(dataset_->name(), '[', comma_list(classes, ","), ']')) {
  const std::vector<int> labels = relabel(*dataset_, classes);
  const std::vector<std::string> names = dataset_->class_names();
  for (const int c : classes) class_names_.push_back(names[static_cast<std::size_t>(c)]);
  for (std::int64_t i = 0; i < dataset_->size(); ++i) {
    const int label = labels[static_cast<std::size_t>(dataset_->label(i))];
    if (label != kLeftOut) samples_.push_back({i, label});
  }
  BRAID_CHECK(!samples_.empty(), DataError, "[class_subset] ", name_, " has no samples");
}

const ClassSubset::Sample& ClassSubset::at(std::int64_t index) const {
  check_index(index);
  return samples_[static_cast<std::size_t>(index)];
}

}  // namespace braid
