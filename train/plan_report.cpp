#include "train/plan_report.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/trace.h"
#include "scheduler/known_devices.h"
#include "scheduler/profile.h"
#include "train/bench.h"
#include "train/learner.h"
#include "train/units.h"

namespace braid {

namespace {

/// Planned for where the config leaves the choice to measurements.
constexpr int kStreams = 4;

/// A device, and whether this process can tell what its kernels need.
struct Target {
  Device device;
  DeviceInfo info;
  bool has_kernels = false;
  std::string kernels = {};  // see PlanReport
};

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  BRAID_CHECK(file, Error, path, ": cannot read the description of a device");
  return text.str();
}

Target absent_target(DeviceInfo info) {
  Target target{.device = {info.shares_units ? DeviceType::cuda : DeviceType::cpu, 0}, .info = std::move(info)};
  if (target.device.type == DeviceType::cpu) {
    target.kernels = "by the analytic model alone: kernels of another CPU are not known here";
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

Target present_target(const std::string& name) {
  const Device device = Device::parse(name);
  const DeviceInfo info = make_backend(device)->info();
  return {.device = device, .info = info, .has_kernels = true, .kernels = "with the kernels of the device"};
}

Target find_target(const std::string& name) {
  const std::vector<std::string> known = known_device_names();
  if (std::ranges::find(known, name) != known.end()) return absent_target(known_device(name));
  if (!name.ends_with(".json")) return present_target(name);
  try {
    return absent_target(device_from_json(read_file(name)));
  } catch (const Error& error) {
    throw Error(name + ": " + error.what());
  }
}

void count_convolutions(const StepGraph& graph, const KernelChoices& kernels, PlanReport& report) {
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    if (!graph.node(id).op->name().starts_with("conv2d")) continue;
    ++report.convolutions;
    report.candidates += static_cast<std::int32_t>(kernels[static_cast<std::size_t>(id)].size());
  }
}

void plan(const StepGraph& graph, const Target& target, const SessionOptions& options, PlanReport& report,
          PlanView* view) {
  const auto start = std::chrono::steady_clock::now();
  const DeviceInfo& info = target.info;
  const KernelTarget kernel_target{.device = target.device,
                                   .info = info,
                                   .tf32 = options.tf32,
                                   .deterministic = options.deterministic,
                                   .workspace_limit = options.workspace_limit,
                                   .partial = target.device.type == DeviceType::cuda};
  Costs costs = analytic_costs(graph, info, widths(options.width, info.max_width), kernel_target.tf32);
  KernelChoices kernels(static_cast<std::size_t>(graph.node_count()));
  if (target.has_kernels) kernels = make_kernels(graph, kernel_target, costs);
  if (!options.costs.empty()) {
    const Profile profile = read_profile(options.costs);
    check_device(profile, options.costs, info.name, info.capacity);
    report.measured = apply(profile, graph, costs, options.tf32);
  }
  const Plan plan = make_plan(graph, costs, find_policy(options.policy), options.policy, options.streams, info.capacity,
                              info.shares_units);
  const Plan alone = make_plan(graph, costs, serial, "serial", 1, info.capacity, info.shares_units);
  report.plan_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  report.nodes = graph.node_count();
  count_convolutions(graph, kernels, report);
  report.policy = plan.policy;
  report.streams = plan.streams.size();
  report.used_streams = used_streams(plan);
  report.waits = plan.waits();
  report.makespan = plan.makespan;
  report.bound = plan.bound;
  report.serial_makespan = alone.makespan;
  report.arena_bytes = plan.arena_bytes;
  report.serial_arena_bytes = alone.arena_bytes;
  for (const ArenaSlice& slice : plan.workspaces) report.workspace_bytes.push_back(slice.bytes);
  if (view == nullptr) return;
  *view = view_of({graph, graph.edges(), costs, options.streams, info.capacity, info.shares_units}, plan);
}

std::string title(const PlanReport& report) {
  std::ostringstream out;
  for (std::size_t i = 0; i < report.models.size(); ++i) {
    out << (i == 0 ? "" : " and ") << report.models[i] << ", images " << report.inputs[i];
  }
  return out.str();
}

std::string milliseconds(double microseconds) {
  std::ostringstream out;
  out << std::setprecision(3) << microseconds / 1e3 << " ms";
  return out.str();
}

double mebibytes(std::int64_t bytes) { return braid::mebibytes(static_cast<std::size_t>(bytes)); }

}  // namespace

PlanReport report_plan(const RunConfig& config, const PlanRequest& request, PlanView* view) {
  SessionOptions options = config.jobs.front().training.session;
  if (!request.policy.empty()) options.policy = request.policy;
  if (request.streams > 0) options.streams = request.streams;
  if (options.streams == 0) options.streams = kStreams;
  const Target target = find_target(request.device.empty() ? options.device : request.device);
  PlanReport report;
  report.device = target.info.name;
  report.capacity = target.info.capacity;
  report.has_kernels = target.has_kernels;
  report.kernels = target.kernels;

  SessionOptions recording = options;
  recording.device = "cpu";  // nothing runs
  recording.costs.clear();   // they are of the device that is planned for
  Session session(recording);
  DatasetPool datasets;
  std::deque<Learner> learners;
  for (const JobConfig& job : config.jobs) {
    const auto dataset = datasets.get(job.training, Split::train);
    learners.emplace_back(job.training, session, *dataset);
    const Shape image = dataset->image_shape();
    report.models.push_back(job.training.model.name);
    report.inputs.push_back(
        {request.batch_size > 0 ? request.batch_size : job.training.batch_size, image[0], image[1], image[2]});
  }
  const Step step = session.step();
  for (std::size_t i = 0; i < learners.size(); ++i) {
    // What the images show does not matter.
    learners[i].record({Array(DType::f32, report.inputs[i]), Array(DType::i32, {report.inputs[i][0]})});
  }
  plan(with_kept_results(session.tape().graph()), target, options, report, view);
  if (view != nullptr) {
    view->title = title(report);
    view->device = report.device;
    view->layers = layers_of(session.tape());
  }
  return report;
}

std::string to_text(const PlanReport& report) {
  std::ostringstream out;
  out << title(report);
  out << "\nplanned for " << report.device << ' ' << report.kernels << "\n\n" << std::fixed << std::setprecision(2);
  out << "step         " << report.nodes << " nodes, " << report.convolutions
      << " of them convolutions and their gradients";
  if (report.candidates > 0) out << ", which can run in " << report.candidates << " ways";
  if (report.measured != ProfileUse{}) {
    out << "\ncosts        measured for " << report.measured.known << " of "
        << report.measured.known + report.measured.unknown << " nodes";
  }
  out << "\nplan         " << report.policy << ", " << report.used_streams << " of " << report.streams << " streams, "
      << report.waits << " waits\nmakespan     " << milliseconds(report.makespan)
      << " predicted; no plan can need less than " << milliseconds(report.bound.bound) << " ("
      << report.makespan / report.bound.bound << " times that)\nserial       " << milliseconds(report.serial_makespan)
      << " on one stream, " << report.serial_makespan / report.makespan << " times as long\n"
      << std::setprecision(1) << "memory       " << mebibytes(report.arena_bytes) << " MiB arena, "
      << mebibytes(report.serial_arena_bytes) << " MiB on one stream";
  if (report.has_kernels) {
    out << "\nworkspaces  ";
    for (const std::int64_t bytes : report.workspace_bytes) out << ' ' << mebibytes(bytes);
    out << " MiB, by stream";
  }
  out << "\nplanned in   " << milliseconds(report.plan_seconds * 1e6) << '\n';
  return out.str();
}

std::string to_json(const PlanReport& report) {
  nlohmann::json jobs;
  for (std::size_t i = 0; i < report.models.size(); ++i) {
    jobs.push_back({{"model", report.models[i]}, {"input", report.inputs[i].extents()}});
  }
  return nlohmann::json{{"jobs", jobs},
                        {"device", report.device},
                        {"capacity", report.capacity},
                        {"has_kernels", report.has_kernels},
                        {"nodes", report.nodes},
                        {"convolutions", report.convolutions},
                        {"candidates", report.candidates},
                        {"measured_nodes", report.measured.known},
                        {"policy", report.policy},
                        {"streams", report.streams},
                        {"used_streams", report.used_streams},
                        {"waits", report.waits},
                        {"makespan_us", report.makespan},
                        {"lower_bound_us", report.bound.bound},
                        {"depth_us", report.bound.depth},
                        {"work_us", report.bound.work},
                        {"serial_makespan_us", report.serial_makespan},
                        {"arena_bytes", report.arena_bytes},
                        {"serial_arena_bytes", report.serial_arena_bytes},
                        {"workspace_bytes", report.workspace_bytes},
                        {"plan_seconds", report.plan_seconds}}
      .dump();
}

}  // namespace braid
