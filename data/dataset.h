#pragma once
// Datasets, which the loader reads, and the batches that it gives. A custom dataset derives from Dataset, or from
// ImageDataset if its samples are labelled images: those take the fast path, with the transforms of
// data/transforms/transform.h.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash.h"
#include "core/base/random.h"
#include "core/base/shape.h"
#include "core/graph/array.h"

namespace braid {

/// The tensors of one sample, as {image, mask}, of any dtypes and shapes.
using Sample = std::vector<Array>;

/// Every method may be called from several threads at once.
///
///     class Noise : public braid::Dataset {
///       std::int64_t size() const override { return 1000; }
///       braid::Sample sample(std::int64_t index, braid::Generator& random) const override {
///         braid::Array x(braid::DType::f32, {16});
///         for (float& element : x.as<float>()) element = random.normal();
///         return {x, braid::Array::scalar(static_cast<std::int32_t>(index % 2))};
///       }
///     };
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  /// 0 <= index < size(). Augmentation draws from `random`, which depends on the loader's seed, the epoch and the index
  /// only. Throws DataError if the sample is unreadable.
  virtual Sample sample(std::int64_t index, Generator& random) const = 0;
  /// The name in messages.
  virtual std::string name() const { return "dataset"; }

 protected:
  /// Throws DataError if there is no such sample.
  void check_index(std::int64_t index) const {
    BRAID_CHECK(index >= 0 && index < size(), DataError, "[", name(), "] sample ", index, " is outside 0 to ",
                size() - 1);
  }
};

/// Pixels u8 [H,W,C], in memory of the dataset or in owned memory.
struct Image {
  Shape shape;
  std::span<const std::uint8_t> pixels;
  std::shared_ptr<const std::uint8_t> owner = nullptr;  ///< null: the pixels are valid as long as the dataset
  int bits = 8;                                         ///< per channel in its file
  bool has_alpha = false;                               ///< in its file
};

/// Labelled images. Each image has a label, or each of its pixels has one, as in segmentation: then has_masks() is
/// true.
class ImageDataset : public Dataset {
 public:
  /// [H,W,C] of the images in a batch. The loader resizes images of another size; all have C channels.
  virtual Shape image_shape() const = 0;
  /// Labels are 0 … classes() - 1.
  virtual int classes() const = 0;
  /// The names of the classes; without names, the labels.
  virtual std::vector<std::string> class_names() const {
    std::vector<std::string> names;
    for (int label = 0; label < classes(); ++label) names.push_back(std::to_string(label));
    return names;
  }
  std::string name() const override = 0;
  /// Reads and decodes the image if it is not in memory. 0 <= index < size(). Throws DataError if it is unreadable.
  virtual Image image(std::int64_t index) const = 0;
  /// The file of an image; empty if it has none.
  virtual std::string file_of(std::int64_t) const { return {}; }
  /// The label of an image. Throws Error if there are masks.
  virtual int label(std::int64_t index) const;
  virtual bool has_masks() const { return false; }
  /// The labels of an image's pixels, [H,W,1]. Throws Error if there are no masks.
  virtual Image mask(std::int64_t index) const;
  /// The labels of all images.
  std::vector<int> labels() const {
    std::vector<int> all;
    for (std::int64_t i = 0; i < size(); ++i) all.push_back(label(i));
    return all;
  }
  /// A hash that distinguishes the images of two processes, wherever they are stored: of the names of classes, all
  /// labels and the last image; of files also their names and sizes.
  virtual Hash fingerprint() const;
  /// {image as it is, u8 [H,W,C]; label, i32 scalar, or labels, i32 [H,W]}: what a loader with a collate function
  /// reads.
  Sample sample(std::int64_t index, Generator& random) const override;
};

/// The part of a dataset that a model learns from, the one by which training chooses models and when to stop, or the
/// one that training never sees.
enum class Split { train, val, test };
/// "training", "validation" or "test".
std::string_view to_string(Split split);

/// A batch of an image dataset has images, labels and perhaps targets; of another dataset, tensors.
struct Batch {
  Array images;        ///< f32 [N,H,W,C]
  Array labels;        ///< i32 [N], or [N,H,W] of masks
  Array targets = {};  ///< f32 [N,classes], probabilities, if images are mixed (data/transforms/mixing.h); else empty
  std::vector<Array> tensors = {};  ///< what the loader's collate function made of N samples
  bool split = false;               ///< these are the samples of this rank, or are to be divided over its shards
  /// Number of samples, N: the first extent of the labels or of the first tensor.
  std::int64_t size() const {
    const Array& first = tensors.empty() ? labels : tensors[0];
    return first.shape().rank() == 0 ? first.size() : first.shape()[0];
  }
  /// Tensor i; of an image dataset {images, labels}. Throws Error if there is none.
  const Array& operator[](std::size_t i) const;
};

/// A batch with the shapes that a loader gives, all elements zero.
Batch blank_batch(const ImageDataset& dataset, std::int64_t size);

}  // namespace braid
