#pragma once
// Weights in the names and layouts of torchvision, which has many of the networks: filters [K,C,R,S], and flattened
// images with channels before pixels.

#include <filesystem>
#include <string>
#include <vector>

#include "models/layers/module.h"

namespace braid {

/// Writes the network's tensors as a safetensors file whose content torchvision's load_state_dict accepts if it has the
/// network. `image` [H,W,C] is what the network takes. Waits for the running step. The file appears atomically. Throws
/// Error if it cannot be written, or if a weight reads a flattened image whose features cannot be followed.
void export_weights(const std::filesystem::path& path, Module& model, const Shape& image);

/// Reads the network's tensors from such a file, or from a model file of a run. If the number of classes differs, or
/// the names in the file differ from the network's `classes`, the classifiers stay as they are; the file may have
/// auxiliary classifiers that the network lacks. Returns a line that says what was read. Otherwise throws DataError,
/// which names the file and the problem, and changes no tensor.
std::string load_weights(const std::filesystem::path& path, Module& model, const Shape& image,
                         const std::vector<std::string>& classes = {});

}  // namespace braid
