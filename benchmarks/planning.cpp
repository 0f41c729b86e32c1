// Measures the quality and speed of planning, by the scheduler's models. Nothing runs but the step of `dispatch`.
//
//   bench_planning [recording|step|dispatch|random|quality|nets|strategies]...

#include <sys/resource.h>

#include <cstdio>
#include <iostream>

#include "benchmarks/net.h"
#include "core/base/median.h"
#include "scheduler/check/simulator.h"
#include "scheduler/costs/known_devices.h"
#include "tests/scheduler/least_makespan.h"
#include "tests/scheduler/random_graph.h"
#include "train/run/strategy.h"

namespace braid {
namespace {

using scheduler::testing::random_step;
using scheduler::testing::RandomStep;

template <class Function>
double median_seconds(int times, const Function& function) {
  std::vector<double> all;
  for (int i = 0; i < times; ++i) all.push_back(seconds(function));
  return median(all);
}

double peak_mebibytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

scheduler::Costs costs_for(const StepGraph& graph, const DeviceInfo& device) {
  return scheduler::analytic_costs(graph, device, widths(0, device.max_width));
}

scheduler::Plan plan_for(const StepGraph& graph, const scheduler::Costs& costs, const DeviceInfo& device,
                         std::string_view policy, int streams) {
  return make_plan(scheduler::make_problem(graph, costs, device, streams), scheduler::find_policy(policy), policy);
}

constexpr int kTimes = 21;

void measure_recording() {
  for (const char* name : {"lenet5", "resnet50", "efficientnet_b0", "nasnet_a_mobile"}) {
    Net net(name);
    std::vector<double> times;
    std::int32_t nodes = 0;
    for (int i = 0; i < kTimes; ++i) {
      times.push_back(net.record([&](const StepGraph& graph) { nodes = graph.node_count(); }));
    }
    std::printf("%s: %d nodes\n  record and hash    %8.3f ms, %.3f us a node\n", name, nodes, 1e3 * median(times),
                1e6 * median(times) / nodes);
  }
}

void measure_step() {
  Net net("resnet50");
  const StepGraph graph = net.graph();
  std::printf("ResNet-50, batch 32: %d nodes\n", graph.node_count());
  for (const DeviceInfo& device : {scheduler::known_device("h200"), net.session().backend().info()}) {
    const scheduler::Costs costs = costs_for(graph, device);
    const auto plan = [&] { plan_for(graph, costs, device, "critical_path", 4); };
    std::printf("  plan, 4 streams    %8.3f ms on %s\n", 1e3 * median_seconds(kTimes, plan), device.name.c_str());
  }

  SessionOptions options{.device = "cpu", .streams = 4};
  const auto streams = net.session().backend().make_streams({.count = options.streams});
  Planner planner(net.session(), *streams, options);
  Arena arena(net.session().backend(), *streams);
  PlanCache cache(planner);
  std::vector<double> hit_times;
  for (int i = 0; i <= kTimes; ++i) {
    net.record([&](const StepGraph& recorded) {
      hit_times.push_back(seconds([&] { cache.find(recorded).ready(arena, net.session()); }));
    });
  }
  std::printf("  cache miss         %8.3f ms, kernels included\n  cache hit          %8.3f us\n", 1e3 * hit_times[0],
              1e6 * median({hit_times.begin() + 1, hit_times.end()}));
}

/// The run of a step that does next to nothing, and a forward pass that does little.
void measure_dispatch() {
  constexpr int kNodes = 1000, kSteps = 200;
  for (const int streams : {1, 2}) {
    Session session({.device = "cpu", .streams = streams});
    const Array input(DType::f32, {8});
    std::vector<double> times;
    for (int i = 0; i < kSteps; ++i) {
      Step step = session.step();
      Tensor last;
      for (int stream = 0; stream < streams; ++stream) {
        last = relu(input);
        for (int node = 1; node < kNodes / streams; ++node) last = relu(last);
        last.keep();
      }
      times.push_back(seconds([&] {
        step.run();
        last.array();
      }));
    }
    std::printf("%d nodes of 8 elements, streams: %d, a chain each\n  run                %8.3f us a node\n", kNodes,
                streams, 1e6 * median(times) / kNodes);
  }
  Session session({.device = "cpu"});
  Sequential net(session);
  net.append<LinearLayer>(16, 32);
  net.append<ReluLayer>();
  net.append<LinearLayer>(32, 4);
  const Array input(DType::f32, {1, 16});
  const double time = median_seconds(20'000, [&] {
    Step step = session.step();
    const NoGrad no_grad;
    const Tensor output = net(input);
    step.run();
    output.array();
  });
  std::printf("forward pass of 16, 32 and 4 units, one sample\n  from input to output %6.2f us\n", 1e6 * time);
}

void measure_random_graphs() {
  std::printf("Random graphs, critical_path, 4 streams: policy, waits, memory and verification\n");
  for (const int nodes : {1000, 10000, 100000}) {
    const RandomStep step = random_step(7, nodes, nodes);
    const auto plan = [&] {
      scheduler::make_plan(scheduler::make_problem(step.graph, step.costs, 4, step.capacity), scheduler::critical_path,
                           "critical_path");
    };
    const double time = median_seconds(nodes > 10000 ? 3 : 9, plan);
    std::printf("  %6d nodes  %8.1f ms  %6.2f us a node  peak %6.0f MiB\n", nodes, 1e3 * time, 1e6 * time / nodes,
                peak_mebibytes());
  }
}

/// The makespan of every policy over the least possible, on many small graphs.
void measure_quality() {
  constexpr int kGraphs = 1000, kStreams[] = {2, 3, 4};
  struct Ratio {
    std::string policy;
    double sum = 0, worst = 0;
    int optimal = 0;
  };
  std::vector<Ratio> ratios;
  for (const std::string& name : scheduler::policy_names()) ratios.push_back({.policy = name});
  double oracle_time = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    const RandomStep step = random_step(seed, 11, 8);
    for (const int streams : kStreams) {
      const scheduler::Problem problem = scheduler::make_problem(step.graph, step.costs, streams, step.capacity);
      double least = 0;
      oracle_time += seconds([&] { least = scheduler::testing::least_makespan(problem); });
      for (Ratio& ratio : ratios) {
        const double makespan = scheduler::find_policy(ratio.policy)(problem).makespan;
        const double times = least > 0 ? makespan / least : 1;
        ratio.sum += times;
        ratio.worst = std::max(ratio.worst, times);
        ratio.optimal += times < 1 + 1e-9 ? 1 : 0;
      }
    }
  }
  constexpr int kProblems = kGraphs * static_cast<int>(std::size(kStreams));
  std::printf("%d random graphs of 8 to 11 nodes on 2, 3 and 4 streams; finding the least takes %.2f ms each\n",
              kGraphs, 1e3 * oracle_time / kProblems);
  std::printf("  %-16s %8s %8s %9s\n", "policy", "mean", "worst", "optimal");
  for (const Ratio& ratio : ratios) {
    std::printf("  %-16s %8.4f %8.4f %8.1f%%\n", ratio.policy.c_str(), ratio.sum / kProblems, ratio.worst,
                100.0 * ratio.optimal / kProblems);
  }
}

void measure_nets() {
  constexpr int kStreams = 4;
  std::printf("Nets at batch 32 on %d streams; times in ms, memory in MiB\n", kStreams);
  std::printf("  %-16s %-6s %-14s %9s %9s %7s %6s %8s %8s %8s\n", "net", "device", "policy", "makespan", "simulated",
              "/bound", "waits", "arena", "serial", "plan ms");
  for (const std::string& name : models::model_names()) {
    Net net(name);
    const StepGraph graph = net.graph();
    for (const DeviceInfo& device : {scheduler::known_device("h200"), net.session().backend().info()}) {
      const scheduler::Costs costs = costs_for(graph, device);
      const double serial_arena = static_cast<double>(plan_for(graph, costs, device, "serial", 1).arena_bytes);
      for (const std::string& policy : scheduler::policy_names()) {
        scheduler::Plan plan;
        const double time = seconds([&] { plan = plan_for(graph, costs, device, policy, kStreams); });
        const scheduler::Problem problem = scheduler::make_problem(graph, costs, device, kStreams);
        const double simulated = simulate(problem, plan).makespan;
        std::printf("  %-16s %-6s %-14s %9.3f %9.3f %7.3f %6d %8.1f %8.1f %8.2f\n", name.c_str(),
                    device.oversubscribes ? "h200" : "cpu", policy.c_str(), plan.makespan / 1e3, simulated / 1e3,
                    simulated / plan.bound.bound, plan.commands.waits(),
                    static_cast<double>(plan.arena_bytes) / (1 << 20), serial_arena / (1 << 20), 1e3 * time);
      }
    }
  }
}

/// Searches for a layer-wise strategy, with the recording of the step and the simulation of the best.
void measure_strategies() {
  constexpr int kDevices = 16, kSearches = 3;
  for (const char* name : {"alexnet", "vgg16", "inception_v3", "densenet121"}) {
    TrainConfig config;
    config.model.name = name;
    config.data.name = "synthetic";
    config.data.image_size = name == std::string_view("inception_v3") ? 299 : 224;
    config.data.classes = 1000;
    config.data.size = kDevices;
    config.session.parallel = {.shards = kDevices, .strategy = "layerwise"};
    DatasetPool datasets;
    DeviceInfo device = scheduler::known_device("p100");
    device.link = {.latency_seconds = 10e-6, .bytes_per_second = 12.5e9};
    std::size_t layers = 0;
    const double time = median_seconds(kSearches, [&] {
      layers = find_strategy(config, datasets, std::int64_t{32} * kDevices, [&] { return device; }).size();
    });
    std::printf("%-14s %4zu layers on %d devices: %8.3f s\n", name, layers, kDevices, time);
  }
}

struct Section {
  std::string_view name;
  void (*measure)();
};
constexpr Section kSections[] = {{"recording", measure_recording},  {"step", measure_step},
                                 {"dispatch", measure_dispatch},    {"random", measure_random_graphs},
                                 {"quality", measure_quality},      {"nets", measure_nets},
                                 {"strategies", measure_strategies}};

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  const std::vector<std::string_view> wanted(argv + 1, argv + argc);
  for (const std::string_view name : wanted) {
    if (std::ranges::find(braid::kSections, name, &braid::Section::name) != std::end(braid::kSections)) continue;
    std::cerr << "bench_planning: expected recording, step, dispatch, random, quality, nets or strategies, got '"
              << name << "'\n";
    return 1;
  }
  try {
    for (const braid::Section& section : braid::kSections) {
      if (wanted.empty() || std::ranges::find(wanted, section.name) != wanted.end()) section.measure();
    }
  } catch (const std::exception& error) {
    std::cerr << "bench_planning: " << error.what() << '\n';
    return 1;
  }
}
