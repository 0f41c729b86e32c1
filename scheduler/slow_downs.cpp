#include "scheduler/slow_downs.h"

namespace braid {

void SlowDowns::set_kind(NodeId node, int choice, std::int32_t kind) {
  const auto n = static_cast<std::size_t>(node), c = static_cast<std::size_t>(choice);
  if (kinds_.size() <= n) kinds_.resize(n + 1);
  if (kinds_[n].size() <= c) kinds_[n].resize(c + 1, kUnknown);
  kinds_[n][c] = kind;
}

void SlowDowns::set_factor(std::int32_t kind, std::int32_t other, double factor) {
  factors_[key(kind, other)] = factor;
}

std::int32_t SlowDowns::kind(NodeId node, int choice) const {
  const auto n = static_cast<std::size_t>(node), c = static_cast<std::size_t>(choice);
  return n < kinds_.size() && c < kinds_[n].size() ? kinds_[n][c] : kUnknown;
}

double SlowDowns::factor(NodeId node, int choice, NodeId other, int other_choice) const {
  const std::int32_t first = kind(node, choice), second = kind(other, other_choice);
  if (first == kUnknown || second == kUnknown) return 1;
  const auto found = factors_.find(key(first, second));
  return found == factors_.end() ? 1 : found->second;
}

SlowDowns SlowDowns::renamed(std::span<const NodeId> names) const {
  SlowDowns result;
  result.factors_ = factors_;
  for (std::size_t node = 0; node < kinds_.size(); ++node) {
    for (std::size_t choice = 0; choice < kinds_[node].size(); ++choice) {
      result.set_kind(names[node], static_cast<int>(choice), kinds_[node][choice]);
    }
  }
  return result;
}

}  // namespace braid
