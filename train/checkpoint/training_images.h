#pragma once
// What a model's file says about the images that the model was trained on. Predictions and exports need no data set.

#include <map>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "train/checkpoint/safetensors.h"
#include "train/config/config.h"

namespace braid {

struct TrainingImages {
  std::vector<std::string> classes;  ///< their names
  Shape image_shape;                 ///< [H,W,C]
  std::vector<double> mean, std;     ///< per channel, on the scale 0 to 1; empty: 0 and 1
};

/// The metadata of a model's file: the layouts of tensors, what read_training_images() reads, and what tells
/// whether a config holds out the same images from training.
std::map<std::string, std::string> model_metadata(const DataConfig& data, const ImageDataset& training,
                                                  const ImageDataset& validation);
/// Throws DataError if 'braid train' has not saved the file, or its metadata is damaged. Mean and deviation are those
/// of `data` if the file has none.
TrainingImages read_training_images(const SafeTensors& file, const DataConfig& data);

/// The names of the classes of the file's model, as JSON; empty if the file does not say.
std::string classes_in(const SafeTensors& file);
/// Throws DataError if the file's model has other classes than the dataset, by name and order: its labels mean others.
void check_classes(const SafeTensors& file, const ImageDataset& dataset);
/// A sentence if the config holds out other images from training than the model's training did: the model may have been
/// trained on some of them. Empty if not, or if the file does not say.
std::string held_out_otherwise(const SafeTensors& file, const DataConfig& data, const ImageDataset& validation);

}  // namespace braid
