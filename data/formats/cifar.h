#pragma once
// CIFAR-10 and CIFAR-100 (Krizhevsky 2009): 32×32 images in colour, 50000 to train and 10000 to test, in the binary
// version of https://www.cs.toronto.edu/~kriz/cifar.html. Validation uses the test images: there are no others.

#include <memory>
#include <string>

#include "data/dataset.h"

namespace braid {

/// Reads data_batch_1.bin to data_batch_5.bin, or test_batch.bin, from the folder `root` or its subfolder
/// cifar-10-batches-bin, compressed by gzip or not; names of classes from batches.meta.txt if it is there.
/// Throws DataError if a file is missing or corrupt.
std::shared_ptr<const ImageDataset> cifar10(const std::string& root, Split split);
/// Reads train.bin or test.bin, and fine_label_names.txt, from `root` or its subfolder cifar-100-binary. Labels are the
/// fine ones.
std::shared_ptr<const ImageDataset> cifar100(const std::string& root, Split split);

}  // namespace braid
