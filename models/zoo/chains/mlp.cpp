#include "models/zoo/chains/mlp.h"

namespace braid::models {

Mlp::Mlp(Context& context, const MlpOptions& options) : Module(context), inputs_(options.inputs) {
  std::vector<std::int64_t> sizes = options.hidden;
  sizes.push_back(options.classes);
  std::int64_t in = inputs_;
  for (const std::int64_t out : sizes) {
    BRAID_CHECK(out >= 1, Error, "[mlp] expected layers of at least one unit, got ", out);
    layers_.push_back(&add<LinearLayer>(message("fc", layers_.size() + 1), in, out));
    in = out;
  }
}

Tensor Mlp::forward(const Tensor& x) {
  Tensor y = flatten(x);
  BRAID_CHECK(y.shape()[1] == inputs_, ShapeError, "[mlp] expected images of ", inputs_, " values, got ", x.shape());
  for (LinearLayer* layer : layers_) y = (*layer)(layer == layers_.front() ? y : relu(y));
  return y;
}

}  // namespace braid::models
