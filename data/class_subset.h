#pragma once
// The samples of some classes of a dataset, as a separate dataset: for example two of ten kinds of clothing, for a
// binary task.

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace braid {

class ClassSubset final : public ImageDataset {
 public:
  /// Samples keep their order; class `classes[i]` gets the label i. Throws ConfigError if the dataset has no such class
  /// or one is listed twice, DataError if no sample is of these classes.
  ClassSubset(std::shared_ptr<const ImageDataset> dataset, const std::vector<int>& classes);

  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  Shape image_shape() const override { return dataset_->image_shape(); }
  int classes() const override { return static_cast<int>(class_names_.size()); }
  std::vector<std::string> class_names() const override { return class_names_; }
  /// A name such as "fashion_mnist[0,6]".
  std::string name() const override { return name_; }
  Image image(std::int64_t index) const override { return dataset_->image(at(index).index); }
  std::string file_of(std::int64_t index) const override { return dataset_->file_of(at(index).index); }
  Hash fingerprint() const override { return dataset_->fingerprint().add(name()); }
  int label(std::int64_t index) const override { return at(index).label; }

 private:
  struct Sample {
    std::int64_t index;  ///< in the dataset
    int label;
  };
  /// Throws DataError if the index is out of range.
  const Sample& at(std::int64_t index) const;

  std::shared_ptr<const ImageDataset> dataset_;
  std::vector<std::string> class_names_;
  std::string name_;
  std::vector<Sample> samples_;
};

}  // namespace braid
