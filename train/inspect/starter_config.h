#pragma once

#include <string>

namespace braid {

/// A config with comments that trains a network on the images in a folder, which holds a folder per class. Its name
/// follows the folder's, its sizes the images'. Throws DataError as image_folder() does (data/formats/image_files.h).
std::string starter_config(const std::string& folder);

}  // namespace braid
