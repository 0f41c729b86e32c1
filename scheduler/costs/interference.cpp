#include "scheduler/costs/interference.h"

namespace braid::scheduler {

void Interference::set_kind(NodeId node, int implementation, std::int32_t kind) {
  const auto n = static_cast<std::size_t>(node), c = static_cast<std::size_t>(implementation);
  if (kinds_.size() <= n) kinds_.resize(n + 1);
  if (kinds_[n].size() <= c) kinds_[n].resize(c + 1, kUnknown);
  kinds_[n][c] = kind;
}

void Interference::set_factor(std::int32_t kind, std::int32_t other, double factor) {
  factors_[key(kind, other)] = factor;
}

std::int32_t Interference::kind(NodeId node, int implementation) const {
  const auto n = static_cast<std::size_t>(node), c = static_cast<std::size_t>(implementation);
  return n < kinds_.size() && c < kinds_[n].size() ? kinds_[n][c] : kUnknown;
}

double Interference::factor(NodeId node, int implementation, NodeId other, int other_implementation) const {
  const std::int32_t first = kind(node, implementation), second = kind(other, other_implementation);
  if (first == kUnknown || second == kUnknown) return 1;
  const auto found = factors_.find(key(first, second));
  return found == factors_.end() ? 1 : found->second;
}

Interference Interference::reindexed(std::span<const NodeId> origin) const {
  Interference result;
  result.factors_ = factors_;
  for (const NodeId node : origin) {
    const auto n = static_cast<std::size_t>(node);
    result.kinds_.push_back(node != kNoNode && n < kinds_.size() ? kinds_[n] : std::vector<std::int32_t>());
  }
  return result;
}

}  // namespace braid::scheduler
