#include "ops/rewrites/rewritten_graph.h"

#include <utility>

namespace braid::ops {

RewrittenGraph composed(const RewrittenGraph& first, RewrittenGraph second) {
  RewrittenGraph both{std::move(second.graph)};
  if (!first.values.empty()) {
    for (const ValueId value : first.values) {
      both.values.push_back(value == kNoValue ? kNoValue : second.value(value));
    }
  } else {
    both.values = second.values;
  }
  for (NodeId node = 0; node < both.graph.node_count(); ++node) {
    both.recorded.push_back(first.recorded_node(second.recorded_node(node)));
  }
  return both;
}

}  // namespace braid::ops
