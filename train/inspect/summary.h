#pragma once
// The layers of a model, and the concurrency that its training step offers.

#include <string>
#include <vector>

#include "train/config/config.h"

namespace braid {

/// Neighbouring nodes of one layer.
struct LayerSummary {
  std::string name;  ///< for example "layer1.0.conv1"; for nodes outside any sublayer, the enclosing layer
  std::string ops;   ///< for example "conv2d, relu"
  Shape output;      ///< output of the last node
  std::int64_t parameters = 0;
  double macs = 0;  ///< multiply-accumulates of convolutions and linear layers in the forward pass of one image
};

struct Summary {
  std::string name;  ///< name of the run or job
  std::string model;
  Shape input;  ///< [N,H,W,C]
  std::vector<LayerSummary> layers;
  std::int64_t parameters = 0;
  double macs = 0;         ///< multiply-accumulates of one image
  std::int32_t nodes = 0;  ///< nodes of a whole training step: forward, backward and update
  double work = 0;         ///< W: the step on one core, microseconds by the analytic model of the device
  double depth = 0;  ///< D: its critical path, likewise. W/D is the average number of nodes that could run at once.
};

/// Records a training step of the config, without running it. With depth > 0, shows layers down to that many parts of
/// their names. Throws the same errors as Trainer.
Summary summarize(const TrainConfig& config, int depth = 0);

/// A table for people.
std::string to_text(const Summary& summary);

/// One line, without its end.
std::string to_json(const Summary& summary);

}  // namespace braid
