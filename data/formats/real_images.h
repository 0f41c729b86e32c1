#pragma once
// A dataset whose images are all of the class "real", with an empty class "generated", for a generative adversarial
// network.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"

namespace braid {

class RealImages final : public ImageDataset {
 public:
  explicit RealImages(std::shared_ptr<const ImageDataset> dataset) : dataset_(std::move(dataset)) {}
  std::int64_t size() const override { return dataset_->size(); }
  Shape image_shape() const override { return dataset_->image_shape(); }
  int classes() const override { return 2; }
  /// 0 and 1
  std::vector<std::string> class_names() const override { return {"generated", "real"}; }
  std::string name() const override { return dataset_->name(); }
  Image image(std::int64_t index) const override { return dataset_->image(index); }
  Hash fingerprint() const override { return dataset_->fingerprint().add(name()); }
  int label(std::int64_t) const override { return 1; }

 private:
  std::shared_ptr<const ImageDataset> dataset_;
};

}  // namespace braid
