#include "runtime/compile/planner.h"

#include <algorithm>

#include "core/text/text.h"
#include "ops/rewrites/fuse.h"
#include "ops/rewrites/partition_check.h"
#include "runtime/agreement.h"
#include "runtime/compile/ranks/bucket_choice.h"
#include "runtime/session.h"
#include "scheduler/check/rank_verifier.h"

namespace braid {

namespace {

/// Predicted length of a step up to which waiting for another thread to begin and to report the end would take longer.
constexpr double kBriefMicroseconds = 50;

/// SessionOptions::profile, if they name a file.
std::unique_ptr<const scheduler::Profile> read_costs(const SessionOptions& options, const DeviceInfo& device) {
  if (options.profile.empty()) return nullptr;
  auto profile = std::make_unique<const scheduler::Profile>(scheduler::read_profile(options.profile));
  check_device(*profile, options.profile, device.name, device.capacity);
  return profile;
}

void add_to(Hash& hash, const StepGraph& graph, const scheduler::Plan& plan) {
  hash.add(graph.hash().low).add(graph.hash().high);
  for (const auto& commands : plan.commands.streams) {
    for (const Command& command : commands) hash.add(static_cast<int>(command.kind)).add(command.index);
    hash.add(static_cast<std::uint64_t>(commands.size()));
  }
  for (const scheduler::Placement& placement : plan.placements) hash.add(placement.implementation);
}

}  // namespace

Planner::Planner(Context& context, StreamGroup& streams, const SessionOptions& options)
    : context_(context),
      streams_(streams),
      options_(options),
      profile_(read_costs(options, context.backend().info())),
      timer_(context.backend(), streams, options.autotune ? profile_.get() : nullptr, options.partition.empty()) {}

std::vector<RewrittenGraph> Planner::rewritten(const StepGraph& recorded) const {
  const ParallelOptions& parallel = options_.parallel;
  ops::Partition partition{.ranks = parallel.data_ranks(),
                           .shards = parallel.shard_count(),
                           .second_shards = parallel.layers.second_axis,
                           .exact = parallel.exact(),
                           .gathers_again = parallel.zero == Sharded::parameters,
                           .local = parallel.average_every > 0};
  if (parallel.ranks() > 1 && parallel.stages() > 1) {
    return pipelined(recorded, parallel, cost_model(options_, device()), context_).stages;
  }
  if (parallel.bucket_bytes > 0) {
    partition.bucket_bytes = parallel.bucket_bytes;
  } else if (parallel.ranks() > 1) {
    if (rank(parallel) == 0) {
      partition = with_buckets(recorded, partition, cost_model(options_, device(), profile_.get()),
                               std::max(options_.streams, 1), scheduler::find_policy(options_.policy));
    }
    streams_.synchronize();  // ranks agree while no step runs
    partition.buckets = of_first_rank(parallel, std::move(partition.buckets));
    partition.slice_bytes = of_first_rank(parallel, std::vector{partition.slice_bytes}).front();
  }
  std::vector<RewrittenGraph> of_all;
  of_all.push_back(as_planned(recorded, device(), partition, options_.convolution == "direct"));
  return of_all;
}

Pipelined pipelined(const StepGraph& recorded, const ParallelOptions& parallel, const scheduler::CostModel& model,
                    const Context& context) {
  const int micro_batches = parallel.shard_count();
  RewrittenGraph divided =
      as_planned(recorded, model.device, {.shards = micro_batches, .exact = true, .bucket_bytes = 0}, model.direct);
  divided = composed(divided, with_incremental_sums(divided.graph));
  const scheduler::Costs costs = scheduler::analytic_costs(divided.graph, model.device, model.widths, model.tf32);
  PipelineSetting setting{.stages = static_cast<std::size_t>(parallel.stages()),
                          .micro_batches = micro_batches,
                          .order = parallel.pipeline,
                          .link = model.device.link,
                          .owner = [&](std::int32_t slot) { return context.parameter(slot).stage(); }};
  for (NodeId node = 0; node < divided.graph.node_count(); ++node) {
    setting.microseconds.push_back(costs.fastest(node));
  }
  return pipelined(recorded, divided, setting);
}

scheduler::CostModel cost_model(const SessionOptions& options, const DeviceInfo& device,
                                const scheduler::Profile* profile) {
  return {.device = device,
          .widths = widths(options.intra_op_threads, device.max_width),
          .tf32 = rounds_to_tf32(options, device),
          .direct = options.convolution == "direct",
          .profile = profile};
}

RewrittenGraph as_planned(StepGraph graph, const DeviceInfo& device, const ops::Partition& partition, bool direct) {
  if (partition.shards == 1) {
    RewrittenGraph fused = ops::fuse_elementwise(with_kept_results(std::move(graph)));
    return device.avx512 ? composed(fused, ops::fuse_normalization(std::move(fused.graph), direct)) : fused;
  }
  RewrittenGraph divided{std::move(graph)};
  for (std::size_t axis = 0; axis < partition.mesh().axes(); ++axis) {
    RewrittenGraph along = ops::partition(divided.graph, partition, axis);
    const std::string fault = ops::check_partition(divided.graph, along, partition, axis);
    BRAID_CHECK(fault.empty(), PlanError, "[parallel] the step was not divided right: ", fault);
    divided = composed(divided, std::move(along));
  }
  return composed(divided, ops::fuse_elementwise(with_kept_results(std::move(divided.graph))));
}

StepGraph with_kept_results(StepGraph graph) {
  std::vector<bool> read(static_cast<std::size_t>(graph.value_count()));
  for (const NodeId id : graph.launched_nodes()) {
    for (const ValueId input : graph.inputs(id)) read[static_cast<std::size_t>(graph.value(input).root)] = true;
  }
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    const bool result = value.producer != kNoNode && !read[static_cast<std::size_t>(value.root)];
    if (value.slot < 0 && value.root == id && (result || value.desc.shape.size() == 1)) graph.keep(id);
  }
  return graph;
}

PlannedStep Planner::plan(std::span<const RewrittenGraph> rewritten, const PlanSetting& setting, std::int64_t limit) {
  const ParallelOptions& parallel = options_.parallel;
  const std::size_t own = rewritten.size() > 1 ? static_cast<std::size_t>(rank(parallel)) : 0;
  PlannedStep planned;
  std::vector<Made> made;
  for (const RewrittenGraph& each : rewritten) {
    const scheduler::Plan& plan = made.emplace_back(make(each.graph, setting, limit)).step.plan;
    add_to(planned.hash, each.graph, plan);
    planned.arenas.push_back(plan.arena_bytes);
    planned.makespan = std::max(planned.makespan, plan.makespan);
    planned.used_streams = std::max(planned.used_streams, plan.commands.used_streams());
  }
  if (parallel.ranks() > 1) {
    std::vector<scheduler::RankPlan> plans;
    for (const Made& each : made) plans.push_back({&each.step.problem, &each.step.plan});
    scheduler::require_safe(plans, parallel.ranks());
  }
  auto& [kernels, step] = made[own];
  if (step.recomputed.has_value()) {
    kernels = make_kernels(*step.recomputed, std::move(kernels), kernel_target(context_, options_), step.problem.costs);
    step.recomputed = composed(rewritten[own], *std::move(step.recomputed));
  }
  planned.executable =
      std::make_unique<Executable>(rewritten[own], std::move(step.recomputed), std::move(step.plan), std::move(kernels),
                                   step.problem.costs, parallel.ranks() == 1 && planned.makespan <= kBriefMicroseconds);
  planned.traded = std::move(step.traded);
  return planned;
}

Planner::Made Planner::make(const StepGraph& graph, const PlanSetting& setting, std::int64_t limit) {
  const DeviceInfo device = this->device();
  const KernelTarget target = kernel_target(context_, options_);
  scheduler::Costs costs =
      scheduler::analytic_costs(graph, device, widths(setting.width, device.max_width), target.tf32);
  NodeKernels kernels = make_kernels(graph, target, costs);
  if (options_.autotune) timer_.time(graph, kernels, costs, target.tf32);
  if (profile_ != nullptr) measured_ = apply(*profile_, graph, costs, target.tf32);
  if (goes_by_observed(setting) && !observed_.empty()) apply(observed(), graph, costs, target.tf32);
  if (options_.deterministic && limit == 0) keep_fastest(kernels, costs);
  scheduler::Problem problem =
      scheduler::make_problem(graph, std::move(costs), device, setting.streams, profile_.get(), target.tf32);
  scheduler::LimitedStep step =
      plan_step(std::move(problem), scheduler::find_policy(setting.policy), setting.policy, limit);
  return {std::move(kernels), std::move(step)};
}

bool Planner::observes() const {
  return context_.device().type == DeviceType::cpu && options_.intra_op_threads == 0 &&
         options_.parallel.ranks() == 1 && profile_ == nullptr && !options_.autotune;
}

void Planner::observe(const Executable& executable, const RunTimes& times) {
  constexpr std::size_t kMostSamples = 5;
  for (const LaunchTime& time : times.launches) {
    const scheduler::Cost& chosen = executable.chosen(time.index);
    std::vector<double>& samples =
        observed_[{scheduler::node_signature(executable.graph(), time.index), chosen.width, chosen.algorithm}];
    if (samples.size() == kMostSamples) samples.erase(samples.begin());
    samples.push_back(time.finish - time.start);
  }
}

scheduler::Profile Planner::observed() const {
  scheduler::Profile profile;
  for (const auto& [implementation, samples] : observed_) {
    // The shortest: the first run touches memory for the first time.
    profile.measurements.push_back({implementation, std::ranges::min(samples), static_cast<int>(samples.size())});
  }
  return profile;
}

DeviceInfo Planner::device() const {
  DeviceInfo device = context_.backend().info();
  if (links(options_.parallel) == 0) return device;
  const bool is_measured = profile_ != nullptr && profile_->link.has_value();
  device.link = is_measured ? *profile_->link : options_.parallel.communicator->link();
  return device;
}

KernelTarget kernel_target(const Context& context, const SessionOptions& options) {
  // Other algorithms may round otherwise than those that run without a partition.
  const bool asks_for_few = !options.deterministic && !options.partition.empty();
  return {.device = context.device(),
          .info = context.backend().info(),
          .tf32 = rounds_to_tf32(options, context.backend().info()),
          .direct = options.convolution == "direct",
          .deterministic = options.deterministic,
          .autotune = options.autotune,
          .workspace_limit = options.workspace_limit,
          .multiprocessors = asks_for_few ? std::ranges::min(options.partition) : 0,
          .keep_filters = options.memory_limit == 0,
          .communicator = context.parallel().communicator.get()};
}

std::vector<int> widths(int fixed, int max_width) {
  if (fixed > 0) return {std::min(fixed, max_width)};
  std::vector<int> list;
  for (int width = 1; width < max_width; width *= 2) list.push_back(width);
  list.push_back(max_width);
  return list;
}

std::vector<PlanSetting> Planner::settings() const {
  const int width = options_.intra_op_threads;
  if (options_.streams > 0 && options_.policy != "auto") return {{options_.policy, options_.streams, width}};
  const DeviceInfo& device = context_.backend().info();
  std::vector<PlanSetting> settings{{"serial", 1, width}};
  const bool narrow = !device.oversubscribes && width == 0 && device.capacity > 1;
  if (narrow) settings.push_back({"serial", 1, 1});
  if (options_.parallel.ranks() > 1) settings.push_back({options_.policy, 1, width});
  if (device.capacity == 1) return settings;
  const std::vector<int> counts = options_.streams > 0 ? std::vector{options_.streams} : std::vector{2, 4, 8};
  for (const int streams : counts) {
    if (streams <= streams_.size() - links(options_.parallel)) settings.push_back({options_.policy, streams, width});
  }
  if (narrow) settings.push_back({options_.policy, counts.front(), 1});
  return settings;
}

std::string PlanSetting::name() const {
  std::string name = policy;
  if (streams > 1) name += " on " + plural(static_cast<std::size_t>(streams), "stream");
  if (width == 1) name += streams > 1 ? " of one core each" : " on one core";
  return name;
}

}  // namespace braid
