#pragma once
// What the loader reads: labelled images in memory, and what it gives: batches.

#include <cstdint>
#include <span>
#include <string>

#include "core/array.h"
#include "core/shape.h"

namespace braid {

struct Batch {
  Array images;  ///< f32 [N,H,W,C]
  Array labels;  ///< i32 [N]
  /// Number of samples, N.
  std::int64_t size() const { return labels.size(); }
};

/// The part of a dataset for training or the one for testing.
enum class Split { train, test };

/// Labelled images of one size. Every method may be called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  /// [H,W,C], the same for all images.
  virtual Shape image_shape() const = 0;
  /// Labels are 0 … classes() - 1.
  virtual int classes() const = 0;
  virtual std::string name() const = 0;
  /// Raw pixels, u8 [H,W,C]; valid as long as the dataset. 0 <= index < size().
  virtual std::span<const std::uint8_t> image(std::int64_t index) const = 0;
  virtual int label(std::int64_t index) const = 0;

 protected:
  /// Throws DataError if there is no such sample.
  void check_index(std::int64_t index) const {
    BRAID_CHECK(index >= 0 && index < size(), DataError, "[", name(), "] sample ", index, " is outside 0 to ",
                size() - 1);
  }
};

}  // namespace braid
