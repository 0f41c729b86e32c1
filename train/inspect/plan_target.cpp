#include "train/inspect/plan_target.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/read_file.h"
#include "core/text/suggestion.h"
#include "core/text/text.h"
#include "runtime/compile/planner.h"
#include "scheduler/costs/known_devices.h"

namespace braid {
namespace {

PlanTarget absent_target(DeviceInfo info) {
  PlanTarget target{.device = {info.oversubscribes ? DeviceType::cuda : DeviceType::cpu, 0}, .info = std::move(info)};
  if (target.device.type == DeviceType::cpu) {
    target.kernels = "by the analytic model alone: the kernels of another CPU are unknown";
  } else if (kernel_names(DeviceType::cuda).empty()) {
    target.kernels = "by the analytic model alone: this build of Braid has no CUDA backend to ask for workspaces";
  } else if (target.info.properties.empty()) {
    target.kernels = "by the analytic model alone: the description lacks the properties that cuDNN asks for";
  } else {
    target.has_kernels = true;
    target.kernels = "with cuDNN's plans and their workspaces";
  }
  return target;
}

/// The description of a cluster: hosts × devices, and links.
struct ClusterConfig {
  scheduler::Cluster cluster;
  void declare(const Keys& keys) {
    keys("name", cluster.name, {}, "as reports call it; default: the file");
    keys("device", cluster.device, {.required = true}, "a known device, or a file `*.json` that describes one");
    keys("hosts", cluster.hosts, {.min = 1, .max = 1 << 16}, "how many");
    keys("devices", cluster.devices, {.min = 1, .max = 1 << 10}, "of each host");
    declare_link(keys.section("inside", "the link of a device to the others of its host"), cluster.inside);
    declare_link(keys.section("network", "the link of a host to the others"), cluster.network);
    keys("hosts_per_switch", cluster.hosts_per_switch, {.min = 1, .max = 1 << 16, .word = "all"},
         "that one switch connects");
    keys("oversubscription", cluster.oversubscription, {.min = 1, .max = 1000},
         "how many times less bandwidth a host has to hosts at other switches");
    keys("parameter_servers", cluster.has_servers, {},
         "whether servers on every host add gradients, instead of the ranks in a ring");
  }

 private:
  static void declare_link(const Keys& keys, Link& link) {
    double latency = 1e6 * link.latency_seconds, bandwidth = 1e-9 * link.bytes_per_second;
    if (std::isinf(bandwidth)) bandwidth = 0;
    keys("latency", latency, {.min = 0, .unit = "us"}, "of a message");
    keys("bandwidth", bandwidth, {.min = 0, .unit = "GB/s"}, "in one direction; 0: no limit");
    link.latency_seconds = 1e-6 * latency;
    link.bytes_per_second = bandwidth > 0 ? 1e9 * bandwidth : std::numeric_limits<double>::infinity();
  }
};

Device parse_device(const std::string& name) {
  try {
    return Device::parse(name);
  } catch (const DeviceError&) {
    const std::vector<std::string> known = scheduler::known_device_names();
    throw Error(message("[device] there is no device '", name, '\'', suggestion(name, known),
                        ": expected auto, cpu, cuda, cuda:<index>, the name of a known device (", comma_list(known),
                        "), or a file *.json that describes one, as 'braid devices --json' prints it"));
  }
}

PlanTarget present_target(const std::string& name) {
  const Device device = parse_device(name);
  const DeviceInfo info = make_backend(device)->info();
  return {.device = device, .info = info, .has_kernels = true, .kernels = "with the kernels of the device"};
}

}  // namespace

PlanTarget find_plan_target(const std::string& name) {
  const std::vector<std::string> known = scheduler::known_device_names();
  if (std::ranges::find(known, name) != known.end()) return absent_target(scheduler::known_device(name));
  if (!name.ends_with(".json")) return present_target(name);
  const std::string text = read_file(name, "the description of a device");
  try {
    return absent_target(scheduler::device_from_json(text));
  } catch (const Error& error) {
    throw Error(name + ": " + error.what());
  }
}

scheduler::Cluster find_cluster(const std::string& name) {
  if (!name.ends_with(".yaml")) return scheduler::known_cluster(name);
  ClusterConfig config = read_config<ClusterConfig>(read_config_file(name));
  if (config.cluster.name.empty()) config.cluster.name = name;
  return config.cluster;
}

TargetCosts target_costs(const StepGraph& graph, const PlanTarget& target, const SessionOptions& options) {
  const DeviceInfo& info = target.info;
  const bool tf32 = rounds_to_tf32(options, info);
  TargetCosts result;
  result.costs = cost_model(options, info).costs(graph);
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    result.convolutions += graph.node(id).op->name().starts_with("conv2d");
  }
  if (target.has_kernels) {
    const KernelTarget kernel_target{.device = target.device,
                                     .info = info,
                                     .tf32 = tf32,
                                     .direct = options.convolution == "direct",
                                     .deterministic = options.deterministic,
                                     .autotune = options.autotune,
                                     .workspace_limit = options.workspace_limit,
                                     .partial = target.device.type == DeviceType::cuda};
    const NodeKernels kernels = make_kernels(graph, kernel_target, result.costs);
    for (NodeId id = 0; id < graph.node_count(); ++id) {
      if (!graph.node(id).op->name().starts_with("conv2d")) continue;
      result.implementations += static_cast<std::int32_t>(kernels[static_cast<std::size_t>(id)].size());
    }
  }
  if (!options.profile.empty()) {
    const scheduler::Profile& profile = result.profile.emplace(scheduler::read_profile(options.profile));
    check_device(profile, options.profile, info.name, info.capacity);
    result.measured = apply(profile, graph, result.costs, tf32);
  }
  return result;
}

}  // namespace braid
