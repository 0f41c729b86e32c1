#include "scheduler/policy.h"

#include <limits>

namespace braid {
namespace {

constexpr std::int32_t kAnySize = std::numeric_limits<std::int32_t>::max();
constexpr NamedPolicy kPolicies[] = {
    {"serial", serial, kAnySize},
    {"critical_path", critical_path, kAnySize},
    {"round_robin", round_robin, kAnySize},
    {"matching", matching, kAnySize},
    {"stages", stages, kAnySize},
    {"resource_order", resource_order, kAnySize},
    {"exhaustive", exhaustive, kMostExhaustiveNodes},
    {"auto", automatic, kAnySize},
};

}  // namespace

std::span<const NamedPolicy> policies() { return kPolicies; }

Policy find_policy(std::string_view name) {
  std::string known;
  for (const NamedPolicy& candidate : kPolicies) {
    if (candidate.name == name) return candidate.policy;
    known += (known.empty() ? "" : ", ") + std::string(candidate.name);
  }
  throw Error(message("[policy] expected one of ", known, ", got '", name, "'"));
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const NamedPolicy& candidate : kPolicies) names.emplace_back(candidate.name);
  return names;
}

}  // namespace braid
