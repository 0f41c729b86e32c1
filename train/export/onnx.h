#pragma once
// Networks as ONNX files (onnx.ai), which other inference libraries read.

#include <filesystem>
#include <string>
#include <utility>

#include "models/layers/module.h"

namespace braid {

/// Writes the network in evaluation mode. Its input "images" is f32 [batch,C,H,W] with any batch, normalised as in
/// training; its output "logits" [batch,classes]. `metadata` becomes metadata_props. Filters and fully connected layers
/// that read flattened images are transposed to ONNX's order of axes, batch norms and activations become separate
/// nodes. Waits for the running step. The file appears atomically. Throws Error if an op has no translation or the file
/// cannot be written.
void export_onnx(const std::filesystem::path& path, Module& model, const Shape& image,
                 std::span<const std::pair<std::string, std::string>> metadata = {});

}  // namespace braid
