#include "runtime/plan_cache.h"

#include <algorithm>

#include "core/text.h"
#include "runtime/plan_choice.h"
#include "runtime/session.h"
#include "scheduler/memory/limited_step.h"

namespace braid {

namespace {

/// Plans kept at most; beyond, the one unused for longest goes. PathNet-like training sees a new structure per step.
constexpr std::size_t kMaxEntries = 512;

}  // namespace

StepGraph with_kept_results(StepGraph graph) {
  std::vector<bool> read(static_cast<std::size_t>(graph.value_count()));
  for (const Node& node : graph.nodes()) {
    if (node.is_view) continue;
    for (const ValueId input : graph.inputs(node)) read[static_cast<std::size_t>(graph.value(input).root)] = true;
  }
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    const bool result = value.producer != kNoNode && !read[static_cast<std::size_t>(value.root)];
    if (value.slot < 0 && value.root == id && (result || value.desc.shape.size() == 1)) graph.keep(id);
  }
  return graph;
}

KernelTarget kernel_target(const Context& context, const SessionOptions& options) {
  return {.device = context.device(),
          .info = context.backend().info(),
          .tf32 = options.tf32,
          .deterministic = options.deterministic,
          .workspace_limit = options.workspace_limit};
}

std::vector<int> widths(int fixed, int max_width) {
  if (fixed > 0) return {std::min(fixed, max_width)};
  std::vector<int> list;
  for (int width = 1; width < max_width; width *= 2) list.push_back(width);
  list.push_back(max_width);
  return list;
}

struct PlanCache::Candidate {
  std::unique_ptr<Executable> executable;
  std::vector<std::string> traded = {};  // LimitedStep::traded
  PlanRuns runs = {};
};

struct PlanCache::Entry {
  explicit Entry(const StepGraph& recorded) : graph(with_kept_results(recorded)) {}
  StepGraph graph;
  std::vector<Candidate> candidates;  // one, once the fastest has been kept
  std::size_t next = 0;               // whose turn it is while measuring
  std::int64_t last_use = 0;
};

PlanCache::PlanCache(Context& context, StreamGroup& streams, const SessionOptions& options,
                     Hash (*hash)(const StepGraph&))
    : context_(context), streams_(streams), options_(options), hash_(hash), timer_(context.backend(), streams) {
  if (options.costs.empty()) return;
  const DeviceInfo& device = context.backend().info();
  profile_ = scheduler::read_profile(options.costs);
  check_device(*profile_, options.costs, device.name, device.capacity);
}
PlanCache::~PlanCache() = default;

Executable& PlanCache::find(const StepGraph& graph) {
  const Hash key = hash_(graph);
  const auto [first, last] = entries_.equal_range(key);
  auto found = std::find_if(first, last, [&](const auto& item) { return item.second->graph.covers(graph); });
  if (found != last) {
    ++hits_;
  } else {
    make_room();
    found = entries_.emplace(key, plan(graph));
    ++plans_;
  }
  current_ = found->second.get();
  current_->last_use = ++clock_;
  // Decided here and not after the last measured run, whose values may still be read until now.
  if (current_->candidates.back().runs.seconds.size() == kMeasuredTurns * kRunsPerTurn) keep_fastest(*current_);
  while (true) {
    measuring_ = current_->candidates.size() > 1;
    const Candidate& candidate = current_->candidates[measuring_ ? current_->next : 0];
    Executable& executable = *candidate.executable;
    const std::int64_t needed = executable.plan().arena_bytes;
    try {
      reserve_arena(needed);
      executable.bind(arena_.data(), context_);
      memory_report_ = scheduler::join(candidate.traded);
      return executable;
    } catch (const OutOfMemory&) {
      if (use_less_memory(*current_, needed)) continue;
      entries_.erase(found);  // the next step may find more memory
      throw;
    }
  }
}

void PlanCache::reserve_arena(std::int64_t bytes) {
  const auto needed = static_cast<std::size_t>(bytes);
  if (arena_.data() != nullptr && arena_.bytes() >= needed) return;
  streams_.synchronize();
  for (auto& [hash, entry] : entries_) {
    for (Candidate& candidate : entry->candidates) candidate.executable->unbind();
  }
  arena_ = {};  // first release, then allocate: both together may not fit
  arena_ = context_.backend().allocate(needed);
}

bool PlanCache::use_less_memory(Entry& entry, std::int64_t bytes) {
  const auto too_large = [&](const Candidate& candidate) { return candidate.executable->plan().arena_bytes >= bytes; };
  std::erase_if(entry.candidates, too_large);
  if (entry.candidates.empty()) {
    // How much the device has is not known: it is searched for in steps of an eighth.
    Candidate smaller = make_candidate(entry.graph, "serial", 1, bytes - bytes / 8);
    if (too_large(smaller)) return false;
    entry.candidates.push_back(std::move(smaller));
  }
  entry.next = 0;
  for (Candidate& candidate : entry.candidates) candidate.runs.seconds.clear();  // turns begin anew, together
  report_ = message("plans that need ", bytes, " bytes or more do not fit into memory");
  return true;
}

std::unique_ptr<PlanCache::Entry> PlanCache::plan(const StepGraph& graph) {
  auto entry = std::make_unique<Entry>(graph);
  const int capacity = context_.backend().info().capacity;
  const std::int64_t limit = options_.memory_limit;
  const auto fits = [&](const Candidate& candidate) {
    return limit == 0 || candidate.executable->plan().arena_bytes <= limit;
  };
  const bool measured = options_.streams == 0 || options_.policy == "auto";
  entry->candidates.push_back(
      make_candidate(entry->graph, measured ? "serial" : options_.policy, measured ? 1 : options_.streams, limit));
  const Candidate& first = entry->candidates.front();
  if (!fits(first))
    throw OutOfMemory(scheduler::does_not_fit(first.executable->plan().arena_bytes, first.traded, limit));
  if (!measured || capacity == 1) return entry;
  for (const int streams : options_.streams > 0 ? std::vector{options_.streams} : std::vector{2, 4, 8}) {
    if (streams > streams_.size()) break;
    Candidate concurrent = make_candidate(entry->graph, options_.policy, streams, limit);
    const scheduler::Plan& plan = concurrent.executable->plan();
    const bool repeats = std::ranges::any_of(entry->candidates, [&](const Candidate& other) {
      return other.executable->plan().commands.streams == plan.commands.streams;
    });
    if (plan.commands.used_streams() > 1 && !repeats && fits(concurrent))
      entry->candidates.push_back(std::move(concurrent));
  }
  return entry;
}

PlanCache::Candidate PlanCache::make_candidate(const StepGraph& graph, std::string_view policy, int streams,
                                               std::int64_t limit) {
  const DeviceInfo& device = context_.backend().info();
  const KernelTarget target = kernel_target(context_, options_);
  scheduler::Costs costs =
      scheduler::analytic_costs(graph, device, widths(options_.width, device.max_width), target.tf32);
  NodeKernels kernels = make_kernels(graph, target, costs);
  if (options_.benchmark) timer_.time(graph, kernels, costs, target.tf32);
  if (profile_.has_value()) measured_ = apply(*profile_, graph, costs, target.tf32);
  scheduler::Problem problem = scheduler::make_problem(graph, std::move(costs), device, streams,
                                                       profile_.has_value() ? &*profile_ : nullptr, target.tf32);
  scheduler::LimitedStep step = plan_step(std::move(problem), scheduler::find_policy(policy), policy, limit);
  if (step.recomputed.has_value())
    kernels = make_kernels(*step.recomputed, std::move(kernels), target, step.problem.costs);
  const std::size_t used = step.plan.commands.streams.size();
  std::string name = used > 1 ? message(step.plan.policy, " on ", plural(used, "stream")) : step.plan.policy;
  return {.executable = std::make_unique<Executable>(graph, std::move(step.recomputed), std::move(step.plan),
                                                     std::move(kernels), step.problem.costs),
          .traded = std::move(step.traded),
          .runs = {std::move(name)}};
}

void PlanCache::add_measurement(double seconds) {
  std::vector<double>& runs = current_->candidates[current_->next].runs.seconds;
  runs.push_back(seconds);
  if (runs.size() % kRunsPerTurn == 0) current_->next = (current_->next + 1) % current_->candidates.size();
}

void PlanCache::keep_fastest(Entry& entry) {
  std::vector<PlanRuns> runs;
  for (Candidate& candidate : entry.candidates) runs.push_back(std::move(candidate.runs));
  const PlanChoice choice = compare(runs);
  report_ = choice.report();
  Candidate kept = std::move(entry.candidates[choice.kept()]);
  entry.candidates.clear();
  entry.candidates.push_back(std::move(kept));
}

void PlanCache::make_room() {
  if (entries_.size() < kMaxEntries) return;
  streams_.synchronize();  // what goes may be running
  entries_.erase(std::ranges::min_element(entries_, {}, [](const auto& item) { return item.second->last_use; }));
}

}  // namespace braid
