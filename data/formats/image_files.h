#pragma once
// Datasets of PNG and JPEG files, decoded when they are asked for.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace braid {

struct ImageFilesOptions {
  Shape image_shape = {224, 224, 3};    ///< shape of the images in a batch; 1 channel makes them grey, 3 RGB
  std::vector<double> background = {};  ///< behind transparent pixels (decode_image)
  /// About these shares of the training images become the validation set and the test set, where the source has none. A
  /// hash of an image's name and of the seed chooses them, so that images added later move no other image.
  double val_share = 0.2, test_share = 0;
  std::uint64_t split_seed = 0;
};

/// The images in the folders of `root`, or in those of root/train, root/val and root/test (or whatever else these are
/// called, in any case; one of the last two may be missing): a folder is a class, and may have subfolders. Classes and
/// images are sorted by name, as in torchvision's ImageFolder. Names that begin with a dot are left out, and so are
/// files that do not end with .jpg, .jpeg or .png. Throws DataError if there are fewer than two classes, a class or the
/// split is empty, another set has a class that the training set lacks, or the name of a class is not UTF-8 text.
std::shared_ptr<const ImageDataset> image_folder(const std::string& root, Split split,
                                                 const ImageFilesOptions& options);

/// Whether root/test, however it is called, holds test images next to those of training.
bool has_test_folder(const std::string& root);

/// The images that a CSV file lists, one per line: path,label. The first line may name these columns. Relative paths
/// begin at `root`, or where the file is if that is empty. Classes are sorted by name, or by number if all are numbers.
/// `val_file` and `test_file`, if not empty, list the validation set and the test set.
/// Throws DataError "file:line: problem" if a line is malformed, and as image_folder().
std::shared_ptr<const ImageDataset> image_list(const std::string& file, const std::string& val_file,
                                               const std::string& test_file, const std::string& root, Split split,
                                               const ImageFilesOptions& options);

/// A dataset for segmentation: the images in root/images. The file of the same path in root/masks, a PNG, shows the
/// class of each pixel as a grey level, 0 to classes − 1. With root/train, root/val and root/test, the folders are
/// in these. Images and masks have options.image_shape. Throws DataError if an image has no mask, or the split is
/// empty.
std::shared_ptr<const ImageDataset> image_masks(const std::string& root, Split split, int classes,
                                                const ImageFilesOptions& options);

}  // namespace braid
