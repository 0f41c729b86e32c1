#pragma once
// Compares gradients with central differences: a test for a new op or model.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/graph/context.h"

namespace braid {

/// Defaults are for float64 parameters.
struct GradientCheckOptions {
  double epsilon = 1e-6;  ///< step of the central difference
  double atol = 1e-5;
  double rtol = 1e-3;
  std::int64_t max_elements = 64;  ///< elements checked per parameter, evenly spread; 0 for all
};

/// Runs one step at the present parameter values: returns the loss and, if gradients is not null, stores the gradient
/// with respect to each parameter, in their order.
using LossFunction = std::function<double(std::vector<Array>* gradients)>;

/// Checks the gradients of f64 parameters. Returns an empty string if they agree, else the first disagreement as
/// "weight[3]: gradient is 0.5, difference quotient 0.25". Leaves the parameters as they were.
std::string check_gradients(Context& context, std::span<Parameter* const> parameters, const LossFunction& loss,
                            const GradientCheckOptions& options = {});

}  // namespace braid
