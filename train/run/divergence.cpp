// Finds out why a loss is not finite. The step that made the weights non-finite has already run when that is noticed,
// so the training is repeated, bit for bit, up to this step, and all values of the step are then examined.

#include <algorithm>
#include <cmath>

#include "train/report/plan/trace.h"
#include "train/run/job.h"

namespace braid {

namespace {

template <class T, class Wider = T>
bool all_finite(const Array& array) {
  return std::ranges::all_of(array.as<T>(), [](T value) { return std::isfinite(static_cast<Wider>(value)); });
}

bool is_finite(const Array& array) {
  switch (array.dtype()) {
    case DType::f16: return all_finite<Half, float>(array);
    case DType::bf16: return all_finite<BFloat16, float>(array);
    case DType::f32: return all_finite<float>(array);
    case DType::f64: return all_finite<double>(array);
    default: return true;
  }
}

/// Runs a recorded step → its first node, in the order of recording, with an output that is not finite, as "conv2d of
/// layer1.0.conv1, in the backward pass"; nothing if there is none.
std::string first_not_finite(Tape& tape, Step& step) {
  const StepGraph& graph = tape.graph();
  const auto look_at = [&](const auto& action) {
    for (NodeId node = 0; node < graph.node_count(); ++node) {
      for (int i = 0; i < graph.node(node).output_count; ++i) {
        const ValueId value = graph.output(node, i);
        if (!graph.is_overwritten(value) && is_floating(graph.value(value).desc.dtype)) action(node, value);
      }
    }
  };
  look_at([&](NodeId, ValueId value) { tape.keep(value); });
  step.run();
  NodeId first = kNoNode;
  look_at([&](NodeId node, ValueId value) {
    if (first == kNoNode && !is_finite(step.read_value(value))) first = node;
  });
  if (first == kNoNode) return {};
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
