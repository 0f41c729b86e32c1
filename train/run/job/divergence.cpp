// Finds out why a loss is not finite. The step that made the weights non-finite has already run when that is noticed,
// so the training is repeated, bit for bit, up to this step, and all values of the step are then examined.

#include <algorithm>
#include <cmath>

#include "ops/common/floating.h"
#include "train/run/job/job.h"

namespace braid {

namespace {

bool is_finite(const Array& array) {
  return for_any_float(array.dtype(), [&]<class T>() {
    using Wide = std::conditional_t<sizeof(T) < sizeof(float), float, T>;
    return std::ranges::all_of(array.as<T>(), [](T value) { return std::isfinite(static_cast<Wide>(value)); });
  });
}

/// Runs a recorded step → its first node, in the order of recording, with an output that is not finite, as "conv2d of
/// layer1.0.conv1, in the backward pass"; nothing if there is none.
std::string first_not_finite(Tape& tape, Step& step) {
  const StepGraph& graph = tape.graph();
  std::vector<std::pair<NodeId, ValueId>> outputs;
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    for (int i = 0; i < graph.node(node).output_count; ++i) {
      const ValueId value = graph.output(node, i);
      if (graph.is_overwritten(value) || !is_floating(graph.value(value).desc.dtype)) continue;
      tape.keep(value);
      outputs.emplace_back(node, value);
    }
  }
  step.run();
  const auto found =
      std::ranges::find_if(outputs, [&](const auto& output) { return !is_finite(step.read_value(output.second)); });
  if (found == outputs.end()) return {};
  const NodeId first = found->first;
  constexpr const char* kWhere[] = {", in the forward pass", ", in the backward pass", ", in the update"};
  const std::string_view layer = tape.layer(first);
  return message(graph.node(first).op->name(), layer.empty() ? "" : " of ", layer,
                 kWhere[static_cast<int>(scheduler::phase_of(graph, first))]);
}

}  // namespace

std::string Job::find_first_not_finite(const JobOutput& output, std::int64_t step, const std::function<bool()>& stop) {
  output_.emplace(output);
  // The previous step may have made the weights non-finite; with loss scaling, no update does.
  const std::int64_t suspect = config_.dtype == DType::f16 ? step : std::max<std::int64_t>(step - 1, 1);
  begin(suspect - 1);
  while (learner_.steps() < step) {
    if (epoch_ended()) {
      in_epoch_ = false;
      validate(stop);  // on which the learning rate may depend
    }
    if (stop()) return {};
    Step repeated = session_.step();
    record(1);
    pending_.clear();
    if (learner_.steps() < suspect) {
      repeated.run();
    } else if (const std::string node = first_not_finite(session_.tape(), repeated); !node.empty()) {
      return message("the first value that is not finite comes from ", node, " of step ", learner_.steps());
    }
  }
  return {};
}

}  // namespace braid
