#include "scheduler/slow_downs.h"

namespace braid {

std::size_t SlowDowns::KeyHash::operator()(const Key& key) const {
  const auto mix = [](std::size_t hash, int part) {
    return (hash ^ static_cast<std::size_t>(part)) * 0x9E3779B97F4A7C15u;
  };
  return mix(mix(mix(mix(0, key.node), key.other), key.choice), key.other_choice);
}

void SlowDowns::set(NodeId node, int choice, NodeId other, int other_choice, double factor) {
  factors_[{node, other, choice, other_choice}] = factor;
}

double SlowDowns::factor(NodeId node, int choice, NodeId other, int other_choice) const {
  const auto found = factors_.find({node, other, choice, other_choice});
  return found == factors_.end() ? 1 : found->second;
}

SlowDowns SlowDowns::renamed(std::span<const NodeId> names) const {
  SlowDowns result;
  for (const auto& [key, factor] : factors_) {
    result.set(names[key.node], key.choice, names[key.other], key.other_choice, factor);
  }
  return result;
}

}  // namespace braid
