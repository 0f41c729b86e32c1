#pragma once
// Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 28×28 grey images of ten kinds of clothing, 60000 to train and 10000 to
// test; and MNIST, handwritten digits in the same files. Validation uses the test images: there are no others.

#include <memory>
#include <string>

#include "data/dataset.h"

namespace braid {

/// Where the Debian package `dataset-fashion-mnist` puts the files.
inline constexpr const char* kFashionMnistRoot = "/usr/share/datasets/fashion-mnist";

/// Reads `train-` or `t10k-` `images-idx3-ubyte` and `labels-idx1-ubyte` from the folder `root`, as they are or with
/// `.gz` at the end of the name; an empty root stands for kFashionMnistRoot. Images are [28,28,1].
/// Throws DataError if a file is missing or corrupt, or if images and labels do not fit together.
std::shared_ptr<const ImageDataset> fashion_mnist(const std::string& root, Split split);
/// Does the same with the files of MNIST, whose folder must be given.
std::shared_ptr<const ImageDataset> mnist(const std::string& root, Split split);

}  // namespace braid
