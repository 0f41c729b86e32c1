#pragma once
// Looks at all images of a dataset: what is in it, and what cannot be read.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "data/transforms/transform.h"

namespace braid {

struct DatasetScan {
  std::int64_t images = 0;  ///< looked at
  /// Images of the whole dataset; of masks, the images looked at that show the class.
  std::vector<std::int64_t> per_class;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> sizes = {};  ///< images by height and width
  std::map<std::int64_t, std::string> bad = {};                              ///< by sample, why it cannot be read
  std::int64_t deep = 0;                                                     ///< images of 16 bits per channel
  std::int64_t with_alpha = 0;                                               ///< images whose files have alpha

  /// Mean and deviation of the pixels of all readable images, per channel, on the scale 0 to 1.
  std::vector<double> mean() const;
  std::vector<double> deviation() const;

  std::int64_t pixels = 0;                             ///< pixels in the sums
  std::vector<std::uint64_t> sums = {}, squares = {};  ///< per channel, of bytes
};

/// Reads the images, or `most` of them at equal distances, in several threads; the result does not depend on their
/// number. The sums are of pixels as a transform with these options shows them without random changes.
DatasetScan scan_dataset(const ImageDataset& dataset, const TransformOptions& options, int threads, std::int64_t most);

}  // namespace braid
