#pragma once
// A report on a config's images: counts, sizes, mean and deviation, unreadable files, and a picture of a batch.

#include <string>

#include "data/formats/scan.h"
#include "train/config/config.h"

namespace braid {

struct DataReport {
  struct Part {
    std::string name;  ///< "training", "validation" or "test"
    std::int64_t images;
    DatasetScan scan;
  };
  std::string name;  ///< name of the run or job
  std::string dataset;
  Shape image_shape;
  std::vector<std::string> classes;
  bool paints = false;  ///< transparent pixels, in the colour of data.background
  std::vector<Part> parts;
};

/// Reads all images in `threads` threads. Throws DataError if the dataset is missing or damaged as a whole.
DataReport inspect_data(const TrainConfig& config, int threads);

std::string to_text(const DataReport& report);
/// One line.
std::string to_json(const DataReport& report);

/// A PNG of the first batch of training, at most 48 images.
std::string data_sheet(TrainConfig config);

}  // namespace braid
