#include "scheduler/memory/limited_step.h"

#include <iomanip>

#include "core/base/text_stream.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "scheduler/memory/recompute_choice.h"

namespace braid::scheduler {
namespace {

/// The most rounds of choosing more values and planning the step again.
constexpr int kMostAttempts = 8;

std::string mebibytes(std::int64_t bytes) { return fixed(static_cast<double>(bytes) / (1 << 20), 2) + " MiB"; }

std::string describe(const RewrittenGraph& recomputed, const Costs& costs) {
  const std::vector<NodeId> first = recomputed.first_nodes();
  double microseconds = 0;
  std::int32_t nodes = 0;
  for (NodeId id = 0; id < recomputed.graph.node_count(); ++id) {
    if (first[recomputed.nodes[id]] == id || recomputed.graph.node(id).is_view) continue;
    ++nodes;
    microseconds += costs.fastest(id);
  }
  TextStream out;
  out << std::setprecision(3) << "recomputation: " << plural(nodes, "node") << " a second time, which takes "
      << microseconds / 1e3 << " ms";
  return out.str();
}

}  // namespace

LimitedStep plan_step(Problem problem, Policy policy, std::string_view policy_name, std::int64_t limit) {
  std::vector<ValueId> chosen = marked_values(problem.graph);
  std::optional<RewrittenGraph> marked;
  std::optional<Problem> with_marked;
  if (!chosen.empty()) {
    try {
      marked = recompute(problem.graph, chosen);
      with_marked = with_graph(problem, marked->graph, marked->nodes);
    } catch (const ShapeError&) {  // a recomputed node would read a changed parameter: nothing is recomputed
      chosen.clear();
      marked.reset();
    }
  }
  Problem& first = with_marked.has_value() ? *with_marked : problem;
  Plan plan = make_plan(first, policy, policy_name);
  if (limit == 0 || plan.arena_bytes <= limit) return {std::move(plan), std::move(first), std::move(marked)};
  LimitedPlan limited = plan_within(first, policy, policy_name, limit);
  LimitedStep best{limited.plan, first, marked, limited.traded, limited.fits};

  RewrittenGraph current = marked.has_value() ? *std::move(marked) : recompute(problem.graph, chosen);
  for (int round = 0; round < kMostAttempts && !best.fits; ++round) {
    const std::int64_t excess = limited.plan.arena_bytes - limit;
    if (!choose_recomputed(problem.graph, problem.costs, current, limited.plan, excess, chosen)) break;
    current = recompute(problem.graph, chosen);
    Problem again = with_streams(with_graph(problem, current.graph, current.nodes), 1);
    limited = plan_within(again, policy, policy_name, limit);  // concurrency would only need more memory
    if (limited.plan.arena_bytes >= best.plan.arena_bytes) continue;
    if (limited.fits && problem.streams > 1) {  // but some concurrency may fit
      again.streams = problem.streams;
      limited = plan_within(again, policy, policy_name, limit);
    }
    if (limited.traded.empty() &&
        limited.plan.commands.streams.size() < static_cast<std::size_t>(problem.all_streams())) {
      limited.traded.push_back("concurrency: one stream");
    }
    limited.traded.push_back(describe(current, again.costs));
    best = {limited.plan, std::move(again), current, limited.traded, limited.fits};
  }
  return best;
}

std::string does_not_fit(std::int64_t arena_bytes, std::span<const std::string> traded, std::int64_t limit) {
  return message("[memory] the step does not fit into the memory limit of ", mebibytes(limit),
                 ": the smallest arena found takes ", mebibytes(arena_bytes), traded.empty() ? "" : ", with ",
                 join(traded));
}

std::string join(std::span<const std::string> traded) {
  std::string line;
  for (const std::string& what : traded) line += (line.empty() ? "" : "; ") + what;
  return line;
}

}  // namespace braid::scheduler
