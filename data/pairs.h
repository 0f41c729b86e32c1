#pragma once
// Pairs of images of a dataset, side by side in one picture, labelled by whether both show the same class: for a
// siamese network.

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace braid {

class Pairs final : public ImageDataset {
 public:
  /// Makes as many pairs as the dataset has images. Each image is the left half [H,W,C] of a picture [H,2W,C] once; the
  /// right half is drawn by the seed: another image of the same class for every other pair, of another class for the
  /// rest. Throws DataError unless images of two classes exist.
  explicit Pairs(std::shared_ptr<const ImageDataset> dataset, std::uint64_t seed = 0);

  std::int64_t size() const override { return dataset_->size(); }
  Shape image_shape() const override;
  int classes() const override { return 2; }
  /// 0 and 1
  std::vector<std::string> class_names() const override { return {"different", "same"}; }
  std::string name() const override { return "pairs of " + dataset_->name(); }
  /// Throws DataError as the dataset, or if an image has not the dataset's shape.
  Image image(std::int64_t index) const override;
  Hash fingerprint() const override { return dataset_->fingerprint().add(name()); }
  int label(std::int64_t index) const override;

 private:
  std::shared_ptr<const ImageDataset> dataset_;
  std::vector<std::int64_t> partners_;  // per image, the one next to it
};

}  // namespace braid
