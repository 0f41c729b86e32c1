#include "models/zoo/chains/mlp.h"

namespace braid::models {

Mlp::Mlp(Context& context, const MlpOptions& options) : Chain(context) {
  then([inputs = options.inputs](const Tensor& x) {
    const Tensor y = flatten(x);
    BRAID_CHECK(y.shape()[1] == inputs, ShapeError, "[mlp] expected images of ", inputs, " values, got ", x.shape());
    return y;
  });
  std::vector<std::int64_t> sizes = options.hidden;
  sizes.push_back(options.classes);
  std::int64_t in = options.inputs;
  for (std::size_t i = 0; i < sizes.size(); in = sizes[i++]) {
    BRAID_CHECK(sizes[i] >= 1, Error, "[mlp] expected layers of at least one unit, got ", sizes[i]);
    if (i > 0) then(relu);
    then<LinearLayer>(message("fc", i + 1), in, sizes[i]);
  }
}

}  // namespace braid::models
