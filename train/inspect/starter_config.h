#pragma once

#include <string>

namespace braid {

/// A config for a folder of images, and what its training is and takes: "resnet18 of width 0.25 on 64x64 images for 30
/// epochs, about 3 minutes on cpu". A second line remarks on rare classes.
struct StarterConfig {
  std::string yaml, summary;
};

/// A config with comments that trains a network on the images in a folder, which holds a folder per class. Its name
/// follows the folder's. Image size, augmentation and background follow the images. On a CPU, width, image size and
/// epochs are as large as `braid plan` predicts to end within minutes. Throws DataError as image_folder() does
/// (data/formats/image_files.h).
StarterConfig starter_config(const std::string& folder);

}  // namespace braid
