#include "scheduler/costs/interference.h"

#include <algorithm>
#include <functional>
#include <numeric>

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

std::unordered_map<std::int32_t, double> Interference::least_factors(int others) const {
  std::unordered_map<std::int32_t, int> nodes;  // nodes of every kind
  for (const auto& implementations : kinds_) {
    for (const std::int32_t kind : implementations) ++nodes[kind];
  }
  // Per kind: the factors of all nodes that may run alongside it.
  std::unordered_map<std::int32_t, std::vector<double>> below;
  for (const auto& [key, factor] : factors_) {
    const auto kind = static_cast<std::int32_t>(key >> 32), other = static_cast<std::int32_t>(key);
    const int beside = std::min(nodes[other] - (kind == other), others);
    if (factor < 1 && beside > 0) below[kind].insert(below[kind].end(), beside, factor);
  }
  std::unordered_map<std::int32_t, double> least;
  for (auto& [kind, factors] : below) {
    std::ranges::sort(factors);
    factors.resize(std::min(factors.size(), static_cast<std::size_t>(others)));
    least[kind] = std::accumulate(factors.begin(), factors.end(), 1.0, std::multiplies());
  }
  return least;
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
