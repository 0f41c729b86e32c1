#pragma once
// A picture of the images of a batch, as a network sees them, with their labels.

#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/transforms/transform.h"

namespace braid {

/// Draws the first images of the batch, at most 48, in rows of eight, each with its class below; of a mixed image, the
/// two with their shares. `options` are those of the transform that normalised the images. RGB.
Image contact_sheet(const Batch& batch, const TransformOptions& options, const std::vector<std::string>& class_names);

}  // namespace braid
