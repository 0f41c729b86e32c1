// Measures the quality and speed of planning, by the scheduler's models. Nothing runs but the step of `dispatch`.
// Prints JSON, which benchmarks/planning.py makes tables of; times are in seconds.
//
//   bench_planning [recording|step|dispatch|random|quality|nets|strategies]...

#include <sys/resource.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <numeric>

#include "benchmarks/net.h"
#include "core/base/median.h"
#include "core/text/json.h"
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

constexpr int kTimes = 21, kStreams = 4;

Json measure_recording() {
  Json rows = Json::array();
  for (const char* name : {"resnet50", "lenet5", "efficientnet_b0", "nasnet_a_mobile"}) {
    Net net(name);
    std::vector<double> times;
    std::int32_t nodes = 0;
    for (int i = 0; i < kTimes; ++i) {
      times.push_back(net.record([&](const StepGraph& graph) { nodes = graph.node_count(); }));
    }
    rows.push_back({{"network", name}, {"nodes", nodes}, {"seconds", median(times)}});
  }
  return rows;
}

/// A step of ResNet-50 at batch 32.
Json measure_step() {
  Net net("resnet50");
  const StepGraph graph = net.graph();
  Json result{{"nodes", graph.node_count()}};
  for (const DeviceInfo& device : {scheduler::known_device("h200"), net.session().backend().info()}) {
    const scheduler::Costs costs = costs_for(graph, device);
    const auto plan = [&] { plan_for(graph, costs, device, "critical_path", kStreams); };
    result[device.oversubscribes ? "h200" : "cpu"] = median_seconds(kTimes, plan);
  }

  SessionOptions options{.device = "cpu", .streams = kStreams};
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
  result["cache_miss"] = hit_times[0];  // kernels included
  result["cache_hit"] = median({hit_times.begin() + 1, hit_times.end()});
  return result;
}

/// The run of a step that does next to nothing, per node, and a forward pass that does little.
Json measure_dispatch() {
  constexpr int kNodes = 1000, kSteps = 200;
  Json result{{"nodes", kNodes}};
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
    result[message("streams_", streams)] = median(times) / kNodes;
  }
  Session session({.device = "cpu"});
  Sequential net(session);
  net.append<LinearLayer>(16, 32);
  net.append<ReluLayer>();
  net.append<LinearLayer>(32, 4);
  const Array input(DType::f32, {1, 16});
  result["forward"] = median_seconds(20'000, [&] {
    Step step = session.step();
    const NoGrad no_grad;
    const Tensor output = net(input);
    step.run();
    output.array();
  });
  return result;
}

/// Policy, waits, memory and verification.
Json measure_random_graphs() {
  Json rows = Json::array();
  for (const int nodes : {1000, 10000, 100000}) {
    const RandomStep step = random_step(7, nodes, nodes);
    const auto plan = [&] {
      scheduler::make_plan(scheduler::make_problem(step.graph, step.costs, kStreams, step.capacity),
                           scheduler::critical_path, "critical_path");
    };
    const double time = median_seconds(nodes > 10000 ? 3 : 9, plan);
    rows.push_back({{"nodes", nodes}, {"seconds", time}, {"peak_mib", peak_mebibytes()}});
  }
  return rows;
}

/// The makespan of every policy over the least possible, on many small graphs.
Json measure_quality() {
  constexpr int kGraphs = 1000;
  std::map<std::string, std::vector<double>> ratios;
  for (int seed = 0; seed < kGraphs; ++seed) {
    const RandomStep step = random_step(seed, 11, 8);
    for (const int streams : {2, 3, 4}) {
      const scheduler::Problem problem = scheduler::make_problem(step.graph, step.costs, streams, step.capacity);
      const double least = scheduler::testing::least_makespan(problem);
      for (const std::string& policy : scheduler::policy_names()) {
        ratios[policy].push_back(least > 0 ? scheduler::find_policy(policy)(problem).makespan / least : 1);
      }
    }
  }
  Json rows = Json::array();
  for (const auto& [policy, all] : ratios) {
    const auto count = static_cast<double>(all.size());
    const auto optimal = static_cast<double>(std::ranges::count_if(all, [](double ratio) { return ratio < 1 + 1e-9; }));
    rows.push_back({{"policy", policy},
                    {"mean", std::accumulate(all.begin(), all.end(), 0.0) / count},
                    {"worst", std::ranges::max(all)},
                    {"optimal", optimal / count}});
  }
  return rows;
}

/// All networks at batch 32.
Json measure_nets() {
  Json rows = Json::array();
  for (const std::string& name : models::model_names()) {
    Net net(name);
    const StepGraph graph = net.graph();
    for (const DeviceInfo& device : {scheduler::known_device("h200"), net.session().backend().info()}) {
      const scheduler::Costs costs = costs_for(graph, device);
      const scheduler::Plan serial = plan_for(graph, costs, device, "serial", 1);
      for (const std::string& policy : scheduler::policy_names()) {
        scheduler::Plan plan;
        const double time = seconds([&] { plan = plan_for(graph, costs, device, policy, kStreams); });
        const scheduler::Problem problem = scheduler::make_problem(graph, costs, device, kStreams);
        rows.push_back({{"network", name},
                        {"device", device.oversubscribes ? "h200" : "cpu"},
                        {"policy", policy},
                        {"makespan_us", simulate(problem, plan).makespan},
                        {"bound_us", plan.bound.bound},
                        {"waits", plan.commands.waits()},
                        {"arena_bytes", plan.arena_bytes},
                        {"live_bytes", plan.live_bytes},
                        {"serial_arena_bytes", serial.arena_bytes},
                        {"serial_live_bytes", serial.live_bytes},
                        {"plan_seconds", time}});
      }
    }
  }
  return rows;
}

/// Searches for a layer-wise strategy, with the recording of the step and the simulation of the best.
Json measure_strategies() {
  constexpr int kDevices = 16, kSearches = 3;
  Json rows = Json::array();
  for (const char* name : {"alexnet", "vgg16", "inception_v3", "densenet121"}) {
    TrainConfig config;
    config.model.name = name;
    config.data.name = "synthetic";
    config.data.image_size = name == std::string_view("inception_v3") ? 299 : 224;
    config.data.classes = 1000;
    config.data.size = kDevices;
    config.session.parallel = {.virtual_ranks = kDevices, .strategy = "layerwise"};
    DatasetPool datasets;
    DeviceInfo device = scheduler::known_device("p100");
    device.link = {.latency_seconds = 10e-6, .bytes_per_second = 12.5e9};
    std::size_t layers = 0;
    const double time = median_seconds(kSearches, [&] {
      layers = find_strategy(config, datasets, std::int64_t{32} * kDevices, [&] { return device; }).size();
    });
    rows.push_back({{"network", name}, {"layers", layers}, {"devices", kDevices}, {"seconds", time}});
  }
  return rows;
}

struct Section {
  std::string_view name;
  Json (*measure)();
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
    braid::Json results = braid::Json::object();
    for (const braid::Section& section : braid::kSections) {
      if (!wanted.empty() && std::ranges::find(wanted, section.name) == wanted.end()) continue;
      results[std::string(section.name)] = section.measure();
    }
    std::cout << results.dump() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "bench_planning: " << error.what() << '\n';
    return 1;
  }
}
