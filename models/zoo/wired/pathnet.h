#pragma once
// PathNet (Fernando et al., 2017): layers of many small modules, of which a path uses a few. The outputs of a layer's
// modules on the path are summed; only these modules are recorded, so another path is another step graph. Each task has
// its own last layer. Evolution finds good paths (train/pathnet/evolution.h).

#include "models/layers/layers.h"
#include "models/zoo/wired/genotype.h"

namespace braid::models {

struct PathNetOptions {
  /// The form of a module.
  enum class Form {
    linear,  ///< the paper's for small images: fully connected layer and ReLU
    conv,    ///< ours: 3x3 convolution, batch norm and ReLU; 2x2 max pool between layers, global average at the end
  };
  Form form = Form::linear;
  PathGrid grid = {};
  std::int64_t width =
      20;  ///< linear: units of a module; conv: channels in the first layer, doubling from each to the next
  Shape image_shape{28, 28, 1};  ///< [H,W,C]
};

/// One cell of the grid.
class PathModule : public Chain {
 public:
  using Chain::Chain;
  /// Draws fresh weights from the random state in force.
  void initialise();
  /// Freezes it: its parameters get no gradient, and a batch norm keeps its running statistics.
  void freeze() {
    for (Parameter* parameter : parameters()) parameter->trainable = false;
    keep_frozen_statistics(*this);
  }
  bool frozen() const { return !parameters().front()->trainable; }
};

class PathNet final : public Module {
 public:
  using Options = PathNetOptions;
  /// Throws Error if an option is below 1, or if pooling leaves nothing of the image.
  PathNet(Context& context, const PathNetOptions& options);
  /// Has the modules of one path only, for ordinary training. Also throws Error if it is not a path of this grid.
  PathNet(Context& context, const PathNetOptions& options, const Genotype& path);

  /// Makes the last layer of one more task, and returns the task's number. The name becomes a part of its parameters'
  /// names.
  int add_task(std::string_view name, std::int64_t classes);
  /// images [N,H,W,C] → logits [N,classes]. Throws Error if it is not a path of this net.
  Tensor forward(const Tensor& x, const Genotype& path, int task);
  /// The same along the path that use() set.
  Tensor forward(const Tensor& x) override { return forward(x, path_, task_); }
  void use(const Genotype& path, int task);

  /// Makes every path use these modules too, from now on.
  void keep_active(const Genotype& path);
  /// Freezes the modules of a path from now on. Paths may still use them.
  void freeze(const Genotype& path);
  /// Fresh weights for every module that is not frozen: those that a new net would have in the random state in force.
  void reinitialise();

  /// Modules and their parameters are named "layer<l>.<m>". The net must have it.
  PathModule& module(int layer, int module) const;
  const PathNetOptions& options() const { return options_; }

 private:
  /// Before the modules are made, it does not matter which there are.
  void check_path(const Genotype& path) const;
  /// Adds all modules, or those of one path.
  void add_modules(const Genotype* only);

  PathNetOptions options_;
  std::vector<std::vector<PathModule*>> modules_;  // [L][M], null if the net does not have it
  std::vector<LinearLayer*> last_layers_;          // per task
  std::int64_t features_ = 0;                      // that the last layers read
  Genotype always_;                                // without layers: none
  Genotype path_;
  int task_ = 0;
};

}  // namespace braid::models
