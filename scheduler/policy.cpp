#include "scheduler/policy.h"

namespace braid {
namespace {

struct Named {
  std::string_view name;
  Policy policy;
};
constexpr Named kPolicies[] = {
    {"serial", serial}, {"critical_path", critical_path},   {"round_robin", round_robin}, {"matching", matching},
    {"stages", stages}, {"resource_order", resource_order}, {"exhaustive", exhaustive},
};

}  // namespace

Policy find_policy(std::string_view name) {
  std::string known;
  for (const Named& candidate : kPolicies) {
    if (candidate.name == name) return candidate.policy;
    known += (known.empty() ? "" : ", ") + std::string(candidate.name);
  }
  throw Error(message("[policy] expected one of ", known, ", got '", name, "'"));
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Named& candidate : kPolicies) names.emplace_back(candidate.name);
  return names;
}

}  // namespace braid
