#include "scheduler/policy.h"

#include <algorithm>

#include "core/text/suggestion.h"
#include "core/text/text.h"

namespace braid::scheduler {

Policy find_policy(std::string_view name) {
  const auto* found = std::ranges::find(kPolicies, name, &NamedPolicy::name);
  if (found != std::end(kPolicies)) return found->policy;
  const std::vector<std::string> known = policy_names();
  throw Error(message("[policy] expected one of ", comma_list(known), ", got '", name, '\'', suggestion(name, known)));
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const NamedPolicy& candidate : kPolicies) names.emplace_back(candidate.name);
  return names;
}

}  // namespace braid::scheduler
