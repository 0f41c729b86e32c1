#include "autograd/gradient_check.h"

#include <algorithm>
#include <cmath>

namespace braid {

std::string check_gradients(Context& context, std::span<Parameter* const> parameters, const LossFunction& loss,
                            const GradientCheckOptions& options) {
  std::vector<Array> gradients;
  loss(&gradients);
  BRAID_CHECK(gradients.size() == parameters.size(), Error, "[gradient check] expected ", parameters.size(),
              " gradients, got ", gradients.size());
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    Parameter& parameter = *parameters[p];
    Array values = context.read(parameter);
    const std::span<double> x = values.as<double>();
    const std::span<const double> gradient = std::as_const(gradients[p]).as<double>();
    const std::int64_t size = values.size();
    const std::int64_t checks = options.max_elements == 0 ? size : std::min(size, options.max_elements);
    for (std::int64_t check = 0; check < checks; ++check) {
      const auto i = static_cast<std::size_t>(check * size / checks);
      const double saved = x[i];
      const auto loss_at = [&](double value) {
        x[i] = value;
        context.write(parameter, values);
        return loss(nullptr);
      };
      const double quotient =
          (loss_at(saved + options.epsilon) - loss_at(saved - options.epsilon)) / (2 * options.epsilon);
      x[i] = saved;
      context.write(parameter, values);
      if (!(std::abs(quotient - gradient[i]) <= options.atol + options.rtol * std::abs(quotient))) {
        return message(parameter.name(), "[", i, "]: gradient is ", gradient[i], ", difference quotient ", quotient);
      }
    }
  }
  return {};
}

}  // namespace braid
