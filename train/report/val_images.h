#pragma once
// The predictions of a trained model for the images of the validation set, one by one.

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/config/config.h"

namespace braid {

struct Mistake {
  int label = 0, predicted = 0;
  double probability = 0;  ///< probability of the predicted class
  double loss = 0;
  std::string file;  ///< empty if the image has none
  std::string png;   ///< the image as the model sees it, without the normalisation
};

struct ValImages {
  std::vector<std::string> classes;
  std::string warning;  ///< result of held_out_otherwise()
  std::int64_t images = 0;
  double loss = 0, accuracy = 0;                          ///< means
  std::map<std::pair<int, int>, std::int64_t> confusion;  ///< images, or pixels of masks, by (label, predicted class)
  std::vector<Mistake> mistakes;  ///< images with the highest loss, in this order; none of masks
};

/// Runs the model in a file over the validation set. Throws the same errors as evaluate_checkpoint().
ValImages look_at_val_images(TrainConfig config, const std::filesystem::path& model, std::size_t most_mistakes);

}  // namespace braid
