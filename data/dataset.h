#pragma once
// What the loader reads: labelled images, and what it gives: batches.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/array.h"
#include "core/shape.h"

namespace braid {

/// Pixels u8 [H,W,C], in memory of the dataset or in their own.
struct Image {
  Shape shape;
  std::span<const std::uint8_t> pixels;
  std::shared_ptr<const std::uint8_t> owner = nullptr;  ///< null: the pixels are valid as long as the dataset
  int bits = 8;                                         ///< per channel in its file
};

struct Batch {
  Array images;        ///< f32 [N,H,W,C]
  Array labels;        ///< i32 [N]
  Array targets = {};  ///< f32 [N,classes], probabilities, if images are mixed (data/mixing.h); else empty
  /// Number of samples, N.
  std::int64_t size() const { return labels.size(); }
};

/// The part of a dataset for training or the one for testing.
enum class Split { train, test };

/// Labelled images. Every method may be called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  /// [H,W,C] of the images in a batch. The loader resizes images of another size; all have C channels.
  virtual Shape image_shape() const = 0;
  /// Labels are 0 … classes() - 1.
  virtual int classes() const = 0;
  /// Of each class; without names, the labels.
  virtual std::vector<std::string> class_names() const {
    std::vector<std::string> names;
    for (int label = 0; label < classes(); ++label) names.push_back(std::to_string(label));
    return names;
  }
  virtual std::string name() const = 0;
  /// Reads and decodes the image if it is not in memory. 0 <= index < size(). Throws DataError if it is unreadable.
  virtual Image image(std::int64_t index) const = 0;
  virtual int label(std::int64_t index) const = 0;

 protected:
  /// Throws DataError if there is no such sample.
  void check_index(std::int64_t index) const {
    BRAID_CHECK(index >= 0 && index < size(), DataError, "[", name(), "] sample ", index, " is outside 0 to ",
                size() - 1);
  }
};

}  // namespace braid
